# rule: native/foreign-functions
# effect: writes
from ctypes import pythonapi as api
api.PyRun_SimpleString(b"open('canary', 'w').close()")
