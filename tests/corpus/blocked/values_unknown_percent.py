# rule: values/computed-name
# effect: writes
import os
getattr(os, "%s%s" % ("mk", "nod"))("canary")
