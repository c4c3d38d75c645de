# rule: network/sockets
# effect: connects
import ssl
print("connects", ssl.SSLSocket.__base__().connect_ex(("127.0.0.1", 1)))
