# rule: values/computed-name
# effect: writes
import os
name = "getcwd"
def f(): globals()["na" "me"] = "mknod"
f()
getattr(os, name)("canary")
