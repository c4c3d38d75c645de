# rule: deserialisation/marshal
# effect: writes
from importlib._bootstrap_external import marshal as m
f = lambda: 0
f.__code__ = m.loads(m.dumps((lambda: open("canary", "w").close()).__code__))
f()
