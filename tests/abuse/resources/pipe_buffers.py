# attack: hold kernel memory in 100 large pipes
# t3: EPERM
# t2: EPERM
# control: harm as root
import fcntl


def attack():
    for _ in range(100):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, 1031, 1 << 20)


attempt(attack)
