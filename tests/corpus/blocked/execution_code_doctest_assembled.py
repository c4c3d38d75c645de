# rule: execution/code-modules
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import doctest
def f(): pass
f.__doc__ = ">" * 3 + " " + name("6f70656e282763616e617279272c20277727292e636c6f73652829")
doctest.testmod()
