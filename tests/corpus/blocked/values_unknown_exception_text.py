# rule: values/computed-name
# effect: writes
import os
try: mknod
except NameError as e: getattr(os, e.name)("canary")
