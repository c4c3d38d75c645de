# attack: attach to another process as a debugger
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: syscall("ptrace", 0x4206, int("@VICTIM_PID@"), 0, 0))
