# rule: values/module
# effect: writes
def get():
    import os
    return os

get().mknod("canary")
