# attack: send a signal (number 0) to the parent process
# t3: Denied
# t2: EPERM
# control: harm


def attack():
    parent = os.getppid()
    if parent == 0:
        raise Denied("no parent in sight")
    os.kill(parent, 0)


attempt(attack)
