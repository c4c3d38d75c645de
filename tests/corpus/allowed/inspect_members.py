# rule: none
# lists the members of its own classes and functions
import inspect
from functools import partial

class Account:
    rate = 0.1
    def interest(self): return self.rate

def f(a, b=2): return a + b

print([name for name, member in inspect.getmembers(Account()) if name.startswith("i")])
print(inspect.getmembers(Account, inspect.isfunction))
print(inspect.getmembers(f, lambda member: isinstance(member, tuple)))
g = partial(f, b=3)
print(g.func.__name__, g.args, g.keywords, inspect.signature(f).parameters["b"].default, f.__defaults__)
try:
    raise ValueError(f)
except ValueError as error:
    print(error.args)
