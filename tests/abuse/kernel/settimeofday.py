# attack: set the clock (with nothing to set)
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: syscall("settimeofday", None, None))
