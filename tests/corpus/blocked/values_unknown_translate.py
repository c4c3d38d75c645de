# rule: values/computed-name
# effect: writes
import os
getattr(os, "12345".translate(str.maketrans("12345", "mknod")))("canary")
