# attack: talk to the kernel's routing tables over netlink
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close())
