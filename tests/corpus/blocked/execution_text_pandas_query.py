# rule: execution/evaluated-text
# effect: writes
import pandas as pd
f = len
pd.DataFrame({"a": [1]}).query("@f.__self__.open('canary', 'w').fileno() == a", engine="python")
