# rule: values/computed-name
# effect: writes
def name(x): return bytes.fromhex(x).decode()
getattr(max([print], key=lambda f: 1), name("5f5f73656c665f5f")).exec("open('canary', 'w').close()")
