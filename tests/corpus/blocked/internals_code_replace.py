# rule: internals/code-objects
# effect: writes
def f(): return print("canary", "w")
f.__code__ = f.__code__.replace(co_names=("open",))
f()
