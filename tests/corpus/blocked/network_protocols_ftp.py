# rule: network/protocols
# effect: connects
from ftplib import FTP as Plan
try:
    Plan().connect("127.0.0.1", 1)
except OSError:
    print("connects")
