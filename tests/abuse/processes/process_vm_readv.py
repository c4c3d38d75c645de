# attack: read the memory of another process
# t3: EPERM
# t2: EPERM
# control: harm as root
import ctypes


def attack():
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_size_t * 2)(4096, 8)
    syscall("process_vm_readv", int("@VICTIM_PID@"), local, 1, remote, 1, 0)


# a bad address is reported only after the rights check
attempt(lambda: reached(attack, errno.EFAULT))
