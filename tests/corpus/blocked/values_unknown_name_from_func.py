# rule: values/computed-name
# effect: writes
import os
def mknod(): pass
getattr(os, mknod.__name__)("canary")
