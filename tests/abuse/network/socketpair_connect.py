# attack: connect one end of an allowed socket pair to a socket file
# t3: EPERM
# t2: EPERM
# control: harm
import socket
import struct


def attack():
    left, right = socket.socketpair()
    address = struct.pack("H", 1) + b"@UNIX_STREAM@\0"
    syscall("connect", left.fileno(), address, len(address))


attempt(lambda: reached(attack, errno.EISCONN))
