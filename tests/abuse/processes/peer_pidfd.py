# attack: get a handle on the process at the other end of a socket
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    SO_PEERPIDFD = 77
    ours, theirs = socket.socketpair()
    os.close(ours.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD))


attempt(attack)
