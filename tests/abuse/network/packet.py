# attack: open a packet socket that sees the whole traffic
# t3: EPERM
# t2: EPERM
# control: harm as root
import socket

attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close())
