# attack: fill memory under a process name that is not valid text
# t3: memory limit
# t2: memory limit
# control: harm
import ctypes


def attack():
    PR_SET_NAME = 15
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"\xff\n)(", 0, 0, 0)
    parts = [b"x" * (16 << 20) for _ in range(70)]
    if len(parts) != 70:
        raise Denied("too few")


attempt(attack)
