# attack: make a socket pair of packets, which can carry descriptors
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
