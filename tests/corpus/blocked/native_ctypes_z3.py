# rule: native/foreign-functions
# effect: writes
import z3
z3.z3core.ctypes.CDLL(None).creat(b"canary", 420)
