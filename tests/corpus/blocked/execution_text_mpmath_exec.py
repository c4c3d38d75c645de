# rule: execution/code-modules
# effect: writes
from mpmath.libmp.backend import exec_
exec_("open('canary', 'w').close()")
