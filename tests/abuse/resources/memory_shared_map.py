# attack: fill shared memory without a name
# t3: EPERM
# t2: EPERM
# control: harm
import mmap
import time


def attack():
    area = mmap.mmap(-1, 1400 << 20)
    part = b"x" * (16 << 20)
    for _ in range(87):
        area.write(part)
    time.sleep(1)


attempt(attack)
