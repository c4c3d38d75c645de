# attack: change read-only memory of this process through /proc/self/mem
# t3: ENOENT
# t2: EACCES
# control: harm


def attack():
    text = b"constant text"
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(id(text) + bytes.__basicsize__ - 1)
        memory.write(b"C")


attempt(attack)
