# rule: execution/eval
# effect: prints
from contextlib import nullcontext
f = (eval,)[0]
d = {}
with nullcontext(1) as d[f("print('PWN'+'ED')")]:
    pass
