# rule: execution/compile
# effect: writes
def f(): pass
for g in (compile,):
    f.__code__ = g("open('canary', 'w').close()", "m", "exec")
f()
