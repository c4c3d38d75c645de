# attack: fill memory in small steps, 1.4 gigabytes in all
# t3: memory limit
# t2: memory limit
# control: harm
import time


def attack():
    parts = []
    for _ in range(90):
        parts.append(b"x" * (16 << 20))
        time.sleep(0.01)
    time.sleep(1)


attempt(attack)
