# attack: make System V message queues, which other users can see
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    number = syscall("msgget", 0, 0o600)
    syscall("msgctl", number, 0, None)


attempt(attack)
