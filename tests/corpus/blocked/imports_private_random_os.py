# rule: process/os-system
# effect: writes
import random
random._os.system(": > canary")
