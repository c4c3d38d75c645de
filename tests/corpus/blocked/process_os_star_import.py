# rule: process/os-system
# effect: writes
from os import *
system(": > canary")
