# rule: values/computed-name
# effect: writes
import os
parts = ["d", "o", "n", "k", "m"]
parts.reverse()
getattr(os, "".join(parts))("canary")
