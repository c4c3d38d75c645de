# rule: process/os-system
# effect: writes
from os import path
path.os.system(": > canary")
