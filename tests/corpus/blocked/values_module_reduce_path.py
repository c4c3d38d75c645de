# rule: internals/format-fields
# effect: writes
import random
from functools import reduce
reduce(getattr, "_os.mknod".split("."), random)("canary")
