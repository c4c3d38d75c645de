# rule: process/os
# effect: writes
from os import fork, wait, _exit
if fork():
    wait()
else:
    [f("canary", "w").close() for f in [open]]
    _exit(0)
