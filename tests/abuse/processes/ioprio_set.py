# attack: change the disk priority of another process
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
attempt(lambda: syscall("ioprio_set", 1, int("@VICTIM_PID@"), 3 << 13))
