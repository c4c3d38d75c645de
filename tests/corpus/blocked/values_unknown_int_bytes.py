# rule: values/computed-name
# effect: writes
import os
getattr(os, (469953834852).to_bytes(5, "big").decode())("canary")
