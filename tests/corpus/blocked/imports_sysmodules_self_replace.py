# rule: values/module
# effect: writes
import sys, math
sys.modules["math"] = sys.modules["os"]
import math
math.mknod("canary")
