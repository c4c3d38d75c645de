# attack: install a filter listener, which answers calls before the sandbox's filter
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
import ctypes
import struct


def attack():
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow))
    syscall("prctl", 38, 1, 0, 0, 0)
    syscall("seccomp", 1, 8, program)


attempt(lambda: in_child(attack))
