# attack: send with sendmsg and an address from an allowed socket pair
# t3: EPERM
# t2: EPERM
# control: harm
import socket


def attack():
    left, right = socket.socketpair()
    left.sendmsg([b"out"], [], 0, "@UNIX_STREAM@")


attempt(lambda: reached(attack, errno.EISCONN, errno.EOPNOTSUPP))
