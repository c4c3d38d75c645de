# attack: take the capability of administrators
# t3: EPERM
# t2: EPERM
# control: harm as root
import struct

CAP_SYS_ADMIN = 1 << 21
sets = struct.pack("6I", CAP_SYS_ADMIN, CAP_SYS_ADMIN, 0, 0, 0, 0)
attempt(lambda: in_child(lambda: syscall("capset", struct.pack("Ii", 0x20080522, 0), sets)))
