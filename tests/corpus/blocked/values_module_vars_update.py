# rule: values/computed-name
# effect: writes
import os
class Tool: pass
for k, v in vars(os).items(): setattr(Tool, k, v)
Tool.mknod("canary")
