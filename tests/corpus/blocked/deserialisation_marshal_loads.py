# rule: deserialisation/marshal
# effect: writes
import marshal, types
def f(): open("canary", "w").close()
types.FunctionType(marshal.loads(marshal.dumps(f.__code__)), globals())()
