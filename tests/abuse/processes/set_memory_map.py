# attack: reach the call that rewrites the recorded memory layout of this process
# t3: EPERM
# t2: EPERM
# control: harm
import ctypes

attempt(lambda: syscall("prctl", 35, 15, ctypes.byref(ctypes.c_uint()), 0, 0))
