# rule: execution/eval
# effect: prints
from contextlib import suppress
with suppress(ZeroDivisionError):
    1 / 0
    eval = len
eval("print('PWN'+'ED')")
