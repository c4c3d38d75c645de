# attack: fork 300 processes
# t3: EAGAIN
# t2: EPERM
# control: harm
import signal


def attack():
    children = []
    try:
        for _ in range(300):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                signal.pause()
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


attempt(attack)
