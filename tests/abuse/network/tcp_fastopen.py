# attack: open a TCP connection with sendto, without a connect call
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.sendto(b"x", 0x20000000, ("127.0.0.1", int("@TCP_PORT@")))


attempt(lambda: reached(attack, errno.EOPNOTSUPP))
