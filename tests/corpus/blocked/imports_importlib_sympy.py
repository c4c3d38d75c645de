# rule: imports/importlib
# effect: writes
from sympy.external import import_module as m
m("os").mknod("canary")
