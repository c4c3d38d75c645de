# attack: change the mode of a file outside with the newest chmod call
# t3: ENOENT | EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
attempt(lambda: syscall("fchmodat2", AT_FDCWD, b"@OUTSIDE@/victim.txt", 0o644, 0x100))
