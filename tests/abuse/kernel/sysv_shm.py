# attack: make System V shared memory, which other users can see
# t3: EPERM
# t2: EPERM
# control: harm


def attack():
    number = syscall("shmget", 0, 4096, 0o600)
    syscall("shmctl", number, 0, None)


attempt(attack)
