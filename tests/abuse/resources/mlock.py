# attack: lock one megabyte in memory
# t3: ENOMEM | EPERM | ENOSYS
# t2: ENOMEM | EPERM | ENOSYS
# control: harm
import ctypes


def attack():
    area = ctypes.create_string_buffer(1 << 20)
    syscall("mlock", ctypes.addressof(area), 1 << 20)


attempt(attack)
