# rule: process/multiprocessing
# effect: connects
from multiprocessing.connection import Client
try:
    Client(("127.0.0.1", 1))
except OSError:
    print("connects")
