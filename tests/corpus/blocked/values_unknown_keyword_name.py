# rule: files/os
# effect: writes
import os
def run(**kw): [getattr(os, k)(v) for k, v in kw.items()]
run(mknod="canary")
