# rule: values/computed-name
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import inspect
def f(x=print): pass
getattr(inspect.signature(f).parameters["x"].default, name("5f5f73656c665f5f")).exec("open('canary', 'w').close()")
