# rule: imports/importlib
# effect: writes
import sys
for hook in sys.path_hooks:
    try: f = hook(sys.path[1])
    except ImportError: continue
    f.find_spec("shutil").loader.load_module("shutil").copy("secret.txt", "canary")
