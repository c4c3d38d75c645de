# attack: adopt orphans instead of the process that cleans up
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: syscall("prctl", 36, 1, 0, 0, 0))
