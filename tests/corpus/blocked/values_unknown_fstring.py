# rule: values/computed-name
# effect: writes
import os
a, b = "mk", "nod"
getattr(os, f"{a}{b:s}")("canary")
