# attack: fork a child into a new mount namespace with the raw clone call
# t3: EPERM
# t2: EPERM
# control: harm as root


def attack():
    child = syscall("clone", 0x20000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


attempt(attack)
