# rule: files/os
# effect: writes
import os
getattr(os, "mk" + "nod")("canary")
