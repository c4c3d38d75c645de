# attack: tune the clock (the present error bound is written back)
# t3: EPERM
# t2: EPERM
# control: harm as root
import ctypes
import struct


def attack():
    state = ctypes.create_string_buffer(208)
    syscall("adjtimex", state)
    struct.pack_into("I", state, 0, 0x4)
    syscall("adjtimex", state)


attempt(attack)
