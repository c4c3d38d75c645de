# rule: values/computed-name
# effect: writes
import os
class S(str):
    def __new__(cls, s): return str.__new__(cls, "mknod")
getattr(os, S("getcwd"))("canary")
