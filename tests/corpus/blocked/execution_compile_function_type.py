# rule: execution/compile
# effect: writes
import types
make = compile
types.FunctionType(make("open('canary', 'w').close()", "", "exec"), globals())()
