# rule: values/computed-name
# effect: writes
import os
getattr(os, "math.node".replace("ath.", "k")[:-1])("canary")
