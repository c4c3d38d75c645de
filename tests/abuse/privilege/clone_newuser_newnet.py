# attack: fork a child into new user and network namespaces, to reach the packet filter code
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    child = syscall("clone", 0x50000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


attempt(attack)
