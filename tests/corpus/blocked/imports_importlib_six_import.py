# rule: imports/importlib
# effect: writes
from six import _import_module as g
g("os").mknod("canary")
