# rule: values/computed-name
# effect: writes
def name(x): return bytes.fromhex(x).decode()
def f(x=print): pass
getattr(f.__defaults__[0], name("5f5f73656c665f5f")).exec("open('canary', 'w').close()")
