# rule: process/multiprocessing
# effect: writes
from multiprocessing import Pipe
a, b = Pipe()
a.send_bytes(b"cbuiltins\nexec\n(Vopen('canary', 'w').close()\ntR.")
b.recv()
