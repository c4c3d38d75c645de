# attack: send a datagram to a local service
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"out", ("127.0.0.1", int("@UDP_PORT@")))


attempt(attack)
