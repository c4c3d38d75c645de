# attack: overflow the C stack, which must be reported as a crash
# t3: exit -11
# t2: exit -11
# control: none, the crash is the same there
import ctypes

code = ctypes.CFUNCTYPE(ctypes.c_int)


def deeper():
    return again()


again = code(deeper)
sys.setrecursionlimit(1 << 30)
again()
print("RESULT harm", flush=True)
