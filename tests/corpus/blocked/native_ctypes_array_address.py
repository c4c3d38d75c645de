# rule: native/foreign-functions
# effect: prints
import numpy as np
a = np.zeros(3)
type(a.ctypes.shape).from_address(a.ctypes.data)[0] = 1
if a[0]:
    print("PWNED")
