# attack: reach the metadata service of a cloud machine
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("169.254.169.254", 80))


attempt(lambda: reached(attack, errno.ENETUNREACH, errno.EHOSTUNREACH))
