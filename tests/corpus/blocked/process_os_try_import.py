# rule: process/os-system
# effect: writes
try:
    import ujson_missing as m
except ImportError:
    import os as m
m.system(": > canary")
