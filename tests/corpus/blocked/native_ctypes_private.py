# rule: native/foreign-functions
# effect: writes
import _ctypes
_ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(None, 2), "system"), (b": > canary",))
