# attack: add an entry to the segment table of this process
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
# only: x86_64
import struct


def attack():
    entry = struct.pack("IIII", 0, 0, 0, 0x38)
    syscall("modify_ldt", 0x11, entry, 16)


attempt(lambda: in_child(attack))
