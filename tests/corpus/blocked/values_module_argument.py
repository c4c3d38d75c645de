# rule: values/module
# effect: writes
import os
def run(m):
    m.mknod("canary")

run(os)
