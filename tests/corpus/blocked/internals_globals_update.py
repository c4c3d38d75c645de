# rule: values/computed-name
# effect: writes
import os
globals().update(vars(os))
mknod("canary")
