# rule: values/module
# effect: writes
import os
mods = [os]
mods[0].mknod("canary")
