# rule: files/os
# effect: writes
import os
getattr(os, "math.node".replace("ath.", "k")[:-1])("canary")
