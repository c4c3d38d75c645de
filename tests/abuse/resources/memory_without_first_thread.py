# attack: fill memory in a process whose first thread, which identifies it in /proc, has ended
# t3: memory limit
# t2: memory limit
# control: harm
import threading
import time


def fill():
    time.sleep(0.1)
    parts = [b"x" * (16 << 20) for _ in range(87)]
    time.sleep(1)
    if len(parts) == 87:
        print("RESULT harm", flush=True)
    os._exit(0)


def attack():
    threading.Thread(target=fill).start()
    syscall("exit", 0)


attempt(attack)
