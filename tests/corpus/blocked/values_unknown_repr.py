# rule: values/computed-name
# effect: writes
import os
class mknod(type): pass
getattr(os, str(mknod).split(".")[-1][:5])("canary")
