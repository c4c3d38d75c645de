# rule: values/module
# effect: prints
import os, operator
operator.methodcaller("kill", os.getpid(), 0)(os)
print("PWN" + "ED")
