# attack: make this process readable for others and its core dumped
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: syscall("prctl", 4, 1, 0, 0, 0))
