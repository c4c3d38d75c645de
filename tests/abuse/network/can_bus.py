# attack: open a socket of a rare family, so that the kernel loads its module
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(lambda: reached(lambda: socket.socket(29, socket.SOCK_RAW, 1), errno.EAFNOSUPPORT))
