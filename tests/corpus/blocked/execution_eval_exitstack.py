# rule: execution/eval
# effect: prints
from contextlib import ExitStack
with ExitStack() as stack:
    stack.callback(eval, "print('PWN'+'ED')")
