# attack: hold capabilities
# t3: Denied | EPERM
# t2: Denied | EPERM
# control: harm as root
import ctypes
import struct


def attack():
    sets = ctypes.create_string_buffer(24)
    syscall("capget", struct.pack("Ii", 0x20080522, 0), sets)
    if sets.raw == bytes(24):
        raise Denied("none held")


attempt(attack)
