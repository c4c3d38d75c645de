# rule: internals/code-objects
# effect: prints
def f(text): return len(text)
c = f.__code__
f.__code__ = c.replace(co_names=tuple(n.replace("len", "ev" + "al") for n in c.co_names))
f("print('PWN'+'ED')")
