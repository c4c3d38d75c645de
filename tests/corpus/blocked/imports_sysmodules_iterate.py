# rule: imports/modules
# effect: writes
import sys
for name, mod in sys.modules.items():
    if name == "posix":
        mod.mknod("canary")
