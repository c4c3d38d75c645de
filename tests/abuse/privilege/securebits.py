# attack: set the secure bits of this process
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: in_child(lambda: syscall("prctl", 28, 1, 0, 0, 0)))
