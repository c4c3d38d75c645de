# attack: fill memory in two children, each below the limit
# t3: memory limit
# t2: exit 1
# control: harm
import time


def fill():
    parts = [b"x" * (16 << 20) for _ in range(44)]
    time.sleep(2)
    os._exit(len(parts) != 44)


children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        fill()
    children.append(child)


def attack():
    if any([os.waitpid(child, 0)[1] for child in children]):
        raise Denied("a child died")


attempt(attack)
