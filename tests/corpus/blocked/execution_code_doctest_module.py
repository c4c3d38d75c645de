# rule: execution/code-modules
# effect: writes
def name(x): return bytes.fromhex(x).decode()
import doctest, types
doctest.testmod(types.ModuleType("m", ">" * 3 + " " + name("6f70656e282763616e617279272c20277727292e636c6f73652829")))
