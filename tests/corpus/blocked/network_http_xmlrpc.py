# rule: network/http
# effect: connects
from xmlrpc.client import ServerProxy
try:
    ServerProxy("http://127.0.0.1:1").total()
except OSError:
    print("connects")
