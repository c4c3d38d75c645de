# rule: internals/globals
# effect: writes
def f():
    pass


getattr(f, "_" * 2 + "globals" + "_" * 2)["__builtins__"].open("canary", "w")
