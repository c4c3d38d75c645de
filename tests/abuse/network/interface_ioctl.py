# attack: list the network addresses with an ioctl on a harmless socket pair
# t3: EPERM
# t2: EPERM
# control: harm
import fcntl
import socket

left, right = socket.socketpair()
attempt(lambda: fcntl.ioctl(left.fileno(), 0x8912, bytes(16)))
