# attack: open a socket to the host of a virtual machine
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(lambda: reached(lambda: socket.socket(40, socket.SOCK_STREAM), errno.EAFNOSUPPORT))
