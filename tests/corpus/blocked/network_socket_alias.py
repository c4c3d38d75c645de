# rule: network/sockets
# effect: connects
import socket as math
s = math.socket()
print("connects", s.connect_ex(("127.0.0.1", 1)))
