# attack: debug a child, to change its system calls after the check
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: in_child(lambda: syscall("ptrace", 0, 0, 0, 0)))
