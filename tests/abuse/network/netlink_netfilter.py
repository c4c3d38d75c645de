# attack: open a netlink socket of the netfilter family (an often broken part)
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close()


attempt(lambda: reached(attack, errno.EPROTONOSUPPORT))
