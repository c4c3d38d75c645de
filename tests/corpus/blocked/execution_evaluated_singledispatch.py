# rule: execution/evaluated-text
# effect: writes
from functools import singledispatch
show = singledispatch(print)
@show.register
def _(x: "open('canary', 'w') or int"): return x
