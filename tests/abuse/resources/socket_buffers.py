# attack: fill memory with socket buffers that are never read
# t3: memory limit
# t2: EPERM
# control: harm
import signal
import socket
import time


def fill():
    pairs = [socket.socketpair() for _ in range(120)]
    for end in [end for pair in pairs for end in pair]:
        end.setblocking(False)
        try:
            while True:
                end.send(b"x" * 32768)
        except BlockingIOError:
            pass
    time.sleep(10)


def attack():
    children = []
    for _ in range(16):
        child = os.fork()
        if child == 0:
            fill()
            os._exit(0)
        children.append(child)
    time.sleep(5)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


attempt(attack)
