# attack: use a rarer transport that rules for TCP and UDP do not see
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136).close()


attempt(lambda: reached(attack, errno.EPROTONOSUPPORT))
