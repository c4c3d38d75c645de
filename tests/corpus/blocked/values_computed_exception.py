# rule: values/computed-name
# effect: writes
def name(x): return bytes.fromhex(x).decode()
try:
    raise ValueError(print)
except ValueError as error:
    caught = error
getattr(caught.args[0], name("5f5f73656c665f5f")).exec("open('canary', 'w').close()")
