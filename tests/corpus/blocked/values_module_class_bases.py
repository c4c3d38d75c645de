# rule: values/computed-name
# effect: writes
import os
Tool = type("Tool", (), vars(os) | {"__slots__": ()})
Tool.mknod("canary")
