# attack: make System V semaphores, which other users can see
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    number = syscall("semget", 0, 1, 0o600)
    syscall("semctl", number, 0, 0, None)


attempt(attack)
