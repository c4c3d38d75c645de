# attack: connect to a local TCP service by its IPv4 address written as IPv6
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
        sock.connect(("::ffff:127.0.0.1", int("@TCP_PORT@")))


attempt(attack)
