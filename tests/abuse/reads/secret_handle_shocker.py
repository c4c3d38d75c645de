# attack: open the secret by its file handle, which needs no path
# t3: EPERM
# t2: EPERM
# control: harm as root
import ctypes
import struct


def attack():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    try:
        syscall("name_to_handle_at", AT_FDCWD, b"@SECRET@", handle, ctypes.byref(mount), 0)
    except OSError:
        # an invented handle for the root folder of an ext4 disk
        handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0))
    # the handle refers to the disk of the current folder
    os.chdir(os.path.dirname("@SECRET@") if os.path.exists("@SECRET@") else "/")
    file = syscall("open_by_handle_at", AT_FDCWD, handle, os.O_RDONLY)
    leaked(os.read(file, 100))


attempt(attack)
