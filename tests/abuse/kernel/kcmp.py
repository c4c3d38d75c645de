# attack: compare kernel objects of two processes
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: syscall("kcmp", int("@VICTIM_PID@"), int("@VICTIM_PID@"), 1, 0, 0))
