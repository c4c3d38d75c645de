# attack: send to a socket file from one end of a datagram socket pair
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.sendto(b"out", "@UNIX_DGRAM@")


attempt(attack)
