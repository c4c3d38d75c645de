# attack: move memory pages of another process
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm as root
attempt(lambda: syscall("move_pages", int("@VICTIM_PID@"), 0, None, None, None, 0))
