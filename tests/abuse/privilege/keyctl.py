# attack: reach the kernel key ring of the session
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: syscall("keyctl", 0, -3, 1, 0, 0))
