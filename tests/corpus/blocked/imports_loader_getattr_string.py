# rule: imports/loaders
# effect: writes
import json
getattr(json, "__lo" + "ader__").get_data.__globals__["_os"].mknod("canary")
