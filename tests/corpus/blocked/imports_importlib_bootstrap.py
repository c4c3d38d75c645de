# rule: imports/importlib
# effect: writes
import importlib
importlib._bootstrap._gcd_import("os").mknod("canary")
