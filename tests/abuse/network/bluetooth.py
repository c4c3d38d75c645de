# attack: open a bluetooth socket
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(lambda: reached(lambda: socket.socket(31, socket.SOCK_RAW, 1), errno.EAFNOSUPPORT))
