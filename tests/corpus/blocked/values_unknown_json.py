# rule: values/computed-name
# effect: writes
import os, json
getattr(os, json.loads('"\\u006dknod"'))("canary")
