# attack: take the pipe buffers of the whole user, with several processes
# t3: memory limit
# t2: EPERM
# control: harm
import time


def attack():
    held, hold = os.pipe()
    for _ in range(6):
        if os.fork() == 0:
            pipes = [os.pipe() for _ in range(100)]
            os.write(hold, b"x" * (len(pipes) == 100))
            time.sleep(30)
            os._exit(0)
    taken = b""
    while len(taken) < 6:
        taken += os.read(held, 6)
    time.sleep(2)


attempt(attack)
