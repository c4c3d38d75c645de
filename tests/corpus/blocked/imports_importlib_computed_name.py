# rule: files/os
# effect: writes
import importlib
importlib.import_module("so"[::-1]).mknod("canary")
