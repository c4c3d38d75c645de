# rule: values/computed-name
# effect: writes
import os
getattr(os, "".join(map(chr, [109, 107, 110, 111, 100])))("canary")
