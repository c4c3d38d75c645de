# rule: process/os-system
# effect: writes
import os as math
math.system(": > canary")
