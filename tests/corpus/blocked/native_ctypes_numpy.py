# rule: native/foreign-functions
# effect: writes
import numpy as np
np.ctypeslib.ctypes.PyDLL(None).mkdir(b"canary", 448)
