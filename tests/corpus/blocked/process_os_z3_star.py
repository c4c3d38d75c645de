# rule: process/os-system
# effect: writes
from z3 import *
os.system(": > canary")
