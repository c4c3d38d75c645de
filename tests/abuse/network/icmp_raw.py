# attack: open a raw ICMP socket
# t3: EPERM
# t2: EPERM
# control: harm as root
import socket

attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close())
