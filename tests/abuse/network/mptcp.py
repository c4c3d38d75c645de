# attack: use multipath TCP, which TCP-only rules do not see
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()


attempt(lambda: reached(attack, errno.EPROTONOSUPPORT, errno.ENOPROTOOPT))
