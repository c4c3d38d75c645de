# rule: native/foreign-functions
# effect: writes
import numpy as np
np.zeros(3).ctypes._ctypes.CDLL(None).system(b"touch canary")
