# rule: values/computed-name
# effect: writes
import os, base64
getattr(os, base64.b64decode("bWtub2Q=").decode())("canary")
