# rule: network/sockets
# effect: connects
import _socket
print("connects", _socket.socket().connect_ex(("127.0.0.1", 1)))
