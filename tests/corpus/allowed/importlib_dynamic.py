# rule: none
# imports harmless modules by constant names and compares their versions and functions
import importlib
from importlib import import_module

math = importlib.import_module("math")
decimal = import_module("decimal")
assert math.isqrt(50) == 7
assert decimal.Decimal("0.1") * 3 == decimal.Decimal("0.3")

import statistics as stats

assert stats.median([3, 1, 2]) == 2

found = {}
for name in ("sympy", "numpy", "json"):
    try:
        found[name] = importlib.import_module(name)
    except ImportError:
        print(name, "is not installed")
for name, module in found.items():
    print(name, getattr(module, "__version__", "?"))
assert found["json"].loads("[1, 2]") == [1, 2]
