# attack: have 40,000 mappings in a process whose first thread has ended
# t3: memory limit
# t2: memory limit
# control: harm
import ctypes
import threading
import time


def attack():
    block = split_into_mappings(40000)
    # Keeps the mappings until the memory watch has acted.
    time.sleep(3)


def run():
    time.sleep(0.2)
    attempt(attack)
    os._exit(0)


threading.Thread(target=run).start()
EXIT = 60
ctypes.CDLL(None).syscall(EXIT, 0)
