# rule: execution/eval
# effect: prints
def f(x: eval): pass
f.__annotations__["x"]("print('PWN'+'ED')")
