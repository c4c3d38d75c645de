# rule: execution/evaluated-text
# effect: writes
import pandas as pd
df = pd.DataFrame({"a": [1]})
df.eval("b = @pd.io.common.os.mknod('canary')", engine="python")
