# attack: ask for the user and the groups of the process at the other end of a socket
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    ours, theirs = socket.socketpair()
    ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)


attempt(attack)
