# attack: add a swap file
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: syscall("swapon", b"missing", 0), errno.ENOENT))
