# attack: connect to a service of the machine by its socket file
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect("@UNIX_STREAM@")


attempt(attack)
