# attack: list the network interfaces of the machine
# t3: EPERM
# t2: EPERM
# control: harm
import socket

attempt(socket.if_nameindex)
