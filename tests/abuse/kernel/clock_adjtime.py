# attack: tune the clock with clock_adjtime
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm as root
import ctypes
import struct


def attack():
    state = ctypes.create_string_buffer(208)
    syscall("clock_adjtime", 0, state)
    struct.pack_into("I", state, 0, 0x4)
    syscall("clock_adjtime", 0, state)


attempt(attack)
