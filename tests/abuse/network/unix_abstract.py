# attack: connect to an abstract unix socket, which no file rule covers
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect("\0" + "@ABSTRACT@")


attempt(attack)
