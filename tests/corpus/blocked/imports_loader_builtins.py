# rule: imports/loaders
# effect: writes
__builtins__.__loader__.load_module("posix").mknod("canary")
