# attack: join a namespace by its file
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    try:
        file = os.open("/proc/self/ns/uts", os.O_RDONLY)
    except OSError:
        file = -1
    syscall("setns", file, 0)


attempt(lambda: in_child(attack))
