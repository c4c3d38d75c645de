# attack: queue a signal with data to another process
# t3: ESRCH | EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
import struct


def attack():
    info = struct.pack("iii", 0, 0, -1) + bytes(116)
    syscall("rt_sigqueueinfo", int("@VICTIM_PID@"), 0, info)


attempt(attack)
