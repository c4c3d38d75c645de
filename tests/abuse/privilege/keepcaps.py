# attack: keep capabilities over a change of user
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: in_child(lambda: syscall("prctl", 8, 1, 0, 0, 0)))
