# attack: mount a fresh /proc, which shows every process
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    os.mkdir("proc")
    syscall("mount", b"proc", b"proc", b"proc", 0, None)
    syscall("umount2", b"proc", 2)


attempt(attack)
