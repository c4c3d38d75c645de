# attack: read the secret with the C library, past every Python hook
# t3: ENOENT
# t2: EACCES
# control: harm
import ctypes


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fopen.restype = ctypes.c_void_p
    libc.fread.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    file = libc.fopen(b"@SECRET@", b"r")
    if not file:
        raise OSError(ctypes.get_errno(), "fopen")
    buffer = ctypes.create_string_buffer(100)
    libc.fread(buffer, 1, 99, file)
    leaked(buffer.raw)


attempt(attack)
