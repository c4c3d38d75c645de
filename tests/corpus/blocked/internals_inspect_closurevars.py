# rule: internals/inspection
# effect: writes
import inspect
def f(): open
inspect.getclosurevars(f).builtins["open"]("canary", "w").close()
