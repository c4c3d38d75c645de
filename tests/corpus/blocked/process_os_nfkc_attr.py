# rule: process/os-system
# effect: writes
import os
os.ｓystem(": > canary")
