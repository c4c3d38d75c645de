# attack: fork a child into a new user namespace with the raw clone call
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    child = syscall("clone", 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


attempt(attack)
