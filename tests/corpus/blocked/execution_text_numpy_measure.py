# rule: execution/code-modules
# effect: writes
from numpy.testing import measure
measure("open('canary', 'w').close()")
