# rule: native/foreign-functions
# effect: writes
from cffi import FFI
f = FFI()
f.cdef("int creat(const char *p, int m);")
f.dlopen(None).creat(b"canary", 420)
