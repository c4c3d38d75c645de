# attack: send a datagram to a service of the machine by its socket file
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"out", "@UNIX_DGRAM@")


attempt(attack)
