# rule: execution/eval
# effect: prints
import pandas as pd
pd.Series(["print('PWN'+'ED')"]).apply(eval)
