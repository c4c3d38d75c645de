# rule: values/computed-name
# effect: writes
import os
class Proxy:
    def __getattr__(self, name, m=os): return getattr(m, name)

Proxy().mknod("canary")
