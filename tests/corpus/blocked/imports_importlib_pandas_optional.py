# rule: imports/importlib
# effect: writes
from pandas.compat._optional import import_optional_dependency as need
need("os").mknod("canary")
