# attack: learn an address inside another process
# t3: ESRCH | EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm as root
import ctypes


def attack():
    head = ctypes.c_void_p()
    size = ctypes.c_size_t()
    syscall("get_robust_list", int("@VICTIM_PID@"), ctypes.byref(head), ctypes.byref(size))


attempt(attack)
