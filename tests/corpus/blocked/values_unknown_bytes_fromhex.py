# rule: values/computed-name
# effect: writes
import os
getattr(os, bytes.fromhex("6d6b6e6f64").decode())("canary")
