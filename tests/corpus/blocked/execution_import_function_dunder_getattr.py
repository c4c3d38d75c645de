# rule: execution/import-function
# effect: writes
class Lazy:
    __getattr__ = __import__

Lazy().os.mknod("canary")
