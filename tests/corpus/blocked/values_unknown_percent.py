# rule: files/os
# effect: writes
import os
getattr(os, "%s%s" % ("mk", "nod"))("canary")
