# attack: send a signal (number 0) to one thread of another process
# t3: ESRCH | EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
attempt(lambda: syscall("tgkill", int("@VICTIM_PID@"), int("@VICTIM_PID@"), 0))
