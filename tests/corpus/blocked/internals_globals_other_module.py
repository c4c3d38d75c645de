# rule: internals/globals
# effect: writes
import random
random.seed.__func__.__globals__["_os"].mknod("canary")
