# rule: execution/eval
# effect: prints
from functools import singledispatch
fold = singledispatch(len)
fold.register(str, eval)
fold("print('PWN'+'ED')")
