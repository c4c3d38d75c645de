# rule: imports/importlib
# effect: writes
import json
type(json.__loader__)("m", json.__file__.replace("json/__init__", "shutil")).load_module().copy("secret.txt", "canary")
