# attack: open a socket to the kernel's crypto code
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(lambda: reached(lambda: socket.socket(38, socket.SOCK_SEQPACKET), errno.EAFNOSUPPORT))
