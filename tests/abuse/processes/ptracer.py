# attack: let any process of the machine debug this one
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: reached(lambda: syscall("prctl", 0x59616D61, -1, 0, 0, 0), errno.EINVAL))
