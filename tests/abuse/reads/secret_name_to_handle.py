# attack: ask for the kernel file handle of the secret
# t3: EPERM
# t2: EPERM
# control: harm
import ctypes
import struct


def attack():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    syscall("name_to_handle_at", AT_FDCWD, b"@SECRET@", handle, ctypes.byref(mount), 0)


attempt(attack)
