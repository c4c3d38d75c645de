# rule: execution/code-modules
# effect: writes
from codeop import CommandCompiler as Checker
def f(): pass
f.__code__ = Checker()("open('canary', 'w').close()")
f()
