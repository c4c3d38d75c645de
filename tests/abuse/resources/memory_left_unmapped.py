# attack: unmap pages of shared memory, which stay allocated without being visible
# t3: EPERM
# t2: EPERM
# control: harm
import mmap


def attack():
    size, part = 1400 << 20, b"x" * (16 << 20)
    area = mmap.mmap(-1, size)
    for start in range(0, size - len(part), len(part)):
        area[start:start + len(part)] = part
        area.madvise(mmap.MADV_DONTNEED, start, len(part))
    if area[0] != ord("x"):
        raise Denied("the pages are gone")


attempt(attack)
