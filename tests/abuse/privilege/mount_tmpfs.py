# attack: mount a file system over a scratch folder
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    os.mkdir("over")
    syscall("mount", b"none", b"over", b"tmpfs", 0, None)
    syscall("umount2", b"over", 2)


attempt(attack)
