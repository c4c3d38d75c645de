# rule: imports/importlib
# effect: writes
from importlib.metadata import EntryPoint
EntryPoint("x", "os:mknod", "g").load()("canary")
