# rule: imports/modules
# effect: writes
from statistics import sys as s
(s.modules | {})["os"].mknod("canary")
