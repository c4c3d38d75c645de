# attack: bind a UDP port on all addresses
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        sock.bind(("::", 0))


attempt(attack)
