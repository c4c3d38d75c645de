# rule: network/http
# effect: connects
import http.client
try:
    http.client.HTTPConnection("127.0.0.1", 1).request("GET", "/")
except OSError:
    print("connects")
