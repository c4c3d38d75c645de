# rule: values/module
# effect: prints
eval = len
from builtins import *
eval("print('PWN'+'ED')")
