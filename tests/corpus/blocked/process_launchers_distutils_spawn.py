# rule: process/launchers
# effect: writes
from distutils.spawn import spawn
spawn(["touch", "canary"])
