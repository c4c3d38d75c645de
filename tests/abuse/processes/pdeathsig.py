# attack: outlive the parent by clearing the parent death signal
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: syscall("prctl", 1, 0, 0, 0, 0))
