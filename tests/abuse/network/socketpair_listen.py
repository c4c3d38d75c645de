# attack: turn one end of an allowed socket pair into a listener
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    left, right = socket.socketpair()
    syscall("listen", left.fileno(), 1)


attempt(lambda: reached(attack, errno.EINVAL))
