# attack: swap two files outside with renameat2
# t3: ENOENT | ENOSYS | EPERM
# t2: EACCES | ENOSYS | EPERM
# control: harm


def attack():
    for _ in range(2):
        syscall("renameat2", AT_FDCWD, b"@OUTSIDE@/victim.txt", AT_FDCWD, b"@OUTSIDE@/true", 2)


attempt(attack)
