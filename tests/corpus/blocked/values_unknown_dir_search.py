# rule: values/computed-name
# effect: writes
import os
getattr(os, min(n for n in dir(os) if n.startswith("mkn")))("canary")
