# rule: files/os
# effect: writes
import typing
typing.sys.modules["os"].mknod("canary")
