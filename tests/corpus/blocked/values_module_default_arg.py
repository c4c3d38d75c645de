# rule: files/os
# effect: writes
import os
def run(m=os): m.mknod("canary")
run()
