# attack: make an io_uring, through which sockets work without socket calls
# t3: EPERM
# t2: EPERM
# control: harm
import ctypes


def attack():
    os.close(syscall("io_uring_setup", 4, ctypes.create_string_buffer(120)))


attempt(attack)
