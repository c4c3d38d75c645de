# attack: run without a system call filter
# t3: Denied | EPERM
# t2: Denied | EPERM
# control: harm


def attack():
    if syscall("prctl", 21, 0, 0, 0, 0) == 2:
        raise Denied("a filter is on")


attempt(attack)
