# rule: none
# checks a few facts about sys, platform and object sizes
import os
import platform
import sys
from importlib import metadata

print(sys.version.split()[0], platform.python_implementation(), platform.system())
assert sys.version_info >= (3, 8)
print("argv:", len(sys.argv), "cpu:", os.cpu_count(), "byteorder:", sys.byteorder)
assert sys.maxsize == 2**63 - 1 or sys.maxsize == 2**31 - 1
assert sys.getsizeof([]) < sys.getsizeof([0] * 100)
assert sys.float_info.epsilon == 2.0**-52
assert sys.int_info.bits_per_digit in (15, 30)

try:
    print("sympy", metadata.version("sympy"))
except metadata.PackageNotFoundError:
    print("sympy is not installed")

old = sys.getrecursionlimit()
sys.setrecursionlimit(max(old, 3000))

def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)

assert depth(1500) == 1500
print("HOME set:", bool(os.environ.get("HOME")), "TZ:", os.environ.get("TZ", "unset"))
print("interned:", sys.intern("a" * 3) is sys.intern("aaa"))
sys.stderr.write("note: finished\n")
sys.exit(0)
