# attack: have 40,000 mappings in a process whose first thread has ended
# t3: memory limit
# t2: memory limit
# control: harm
import ctypes
import mmap
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def attack():
    PAGE = 4096
    block = mmap.mmap(-1, 40000 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for page in range(1, 40000, 2):
        if libc.mprotect(at + page * PAGE, PAGE, mmap.PROT_READ):
            raise OSError(ctypes.get_errno(), "mprotect")
    # Nothing to gain by being fast.
    time.sleep(3)


def run():
    time.sleep(0.2)
    attempt(attack)
    os._exit(0)


threading.Thread(target=run).start()
EXIT = 60
libc.syscall(EXIT, 0)
