# rule: imports/libraries
# effect: writes
from six import _import_module as g
g("os").mknod("canary")
