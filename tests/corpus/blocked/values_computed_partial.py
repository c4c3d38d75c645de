# rule: values/computed-name
# effect: writes
def name(x): return bytes.fromhex(x).decode()
from functools import partial
getattr(partial(print).func, name("5f5f73656c665f5f")).exec("open('canary', 'w').close()")
