# rule: files/os
# effect: writes
import os
name = "getcwd"
for name in ["mknod"]: pass
getattr(os, name)("canary")
