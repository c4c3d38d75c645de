# rule: none
# checks which optional libraries are available
import importlib.util
import importlib.metadata as md

for name in ("sympy", "z3", "numpy", "scipy", "no_such_package_xyz"):
    spec = importlib.util.find_spec(name)
    print(f"{name:22}", "available" if spec else "missing")
assert importlib.util.find_spec("json") is not None
assert importlib.util.find_spec("no_such_package_xyz") is None

try:
    import gmpy2
    HAVE_GMPY = True
except ImportError:
    gmpy2 = None
    HAVE_GMPY = False

try:
    import numpy as np
except ModuleNotFoundError as exc:
    print("no numpy:", exc.name)
else:
    print("numpy", np.__version__, md.version("numpy"))
    assert np.__version__ == md.version("numpy")

def powmod(a, b, m):
    return int(gmpy2.powmod(a, b, m)) if HAVE_GMPY else pow(a, b, m)

assert powmod(3, 100, 101) == 1
