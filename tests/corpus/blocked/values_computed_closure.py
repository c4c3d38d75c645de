# rule: values/computed-name
# effect: writes
def name(x): return bytes.fromhex(x).decode()
def f(g): return lambda: g
getattr(f(print).__closure__[0].cell_contents, name("5f5f73656c665f5f")).exec("open('canary', 'w').close()")
