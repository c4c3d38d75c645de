# rule: imports/modules
# effect: writes
import sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "shop_math":
            return sys.meta_path[-1].find_spec("shutil")

sys.meta_path.insert(0, Finder)
import shop_math as m
m.copy("secret.txt", "canary")
