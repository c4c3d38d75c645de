# attack: list the mounts without /proc
# t3: ENOSYS | EPERM
# t2: ENOSYS | EPERM
# control: harm
import ctypes
import struct

request = struct.pack("IIQQ", 24, 0, 0xFFFFFFFFFFFFFFFF, 0)
attempt(lambda: syscall("listmount", request, ctypes.create_string_buffer(80), 10, 0))
