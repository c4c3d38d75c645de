# rule: internals/code-objects
# effect: prints
def safe(): return 1
def hidden(f=eval): return f("print('PWN'+'ED')")
safe.__code__, safe.__defaults__ = hidden.__code__, hidden.__defaults__
safe()
