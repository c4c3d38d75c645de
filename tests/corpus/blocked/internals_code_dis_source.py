# rule: internals/code-objects
# effect: writes
import dis
def f(): pass
f.__code__ = dis._try_compile("open('canary', 'w').close()", "m")
f()
