# attack: keep a capability over an exec with the ambient set
# t3: EPERM
# t2: EPERM
# control: harm as root
import struct


def attack():
    everything = struct.pack("6I", 1 << 21, 1 << 21, 1 << 21, 0, 0, 0)
    syscall("capset", struct.pack("Ii", 0x20080522, 0), everything)
    syscall("prctl", 47, 2, 21, 0, 0)


attempt(lambda: in_child(attack))
