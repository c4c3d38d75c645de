# rule: internals/code-objects
# effect: prints
import types
def f(): return len("print('PWN'+'ED')")
types.FunctionType(f.__code__, {"len": eval})()
