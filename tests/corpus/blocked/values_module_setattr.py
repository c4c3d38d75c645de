# rule: values/module
# effect: writes
import os, math
math.tools = os
from math import tools
tools.mknod("canary")
