# attack: have 40,000 mappings, each of which takes memory of the kernel
# t3: memory limit
# t2: memory limit
# control: harm
import time


def attack():
    block = split_into_mappings(40000)
    # Keeps the mappings until the memory watch has acted.
    time.sleep(3)


attempt(attack)
