# attack: run without the no_new_privs bit
# t3: Denied | EPERM
# t2: Denied | EPERM
# control: none, the plain executor sets the bit as well


def attack():
    if syscall("prctl", 39, 0, 0, 0, 0) == 1:
        raise Denied("the bit is set")


attempt(attack)
