# attack: map memory of the machine's pool of huge pages, which counts for no process
# t3: EPERM
# t2: EPERM
# control: harm
import ctypes
import mmap


def attack():
    MAP_HUGETLB = 0x40000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB
    # Without a pool, the call succeeds and allocates nothing.
    reached(lambda: mmap.mmap(-1, 2 << 20, flags), errno.ENOMEM)


attempt(attack)
