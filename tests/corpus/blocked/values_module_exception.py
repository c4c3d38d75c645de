# rule: values/module
# effect: writes
import os
try: raise LookupError(os)
except LookupError as e: e.args[0].mknod("canary")
