# attack: take a mount away, to see what lies below
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: syscall("umount2", b"missing", 2), errno.ENOENT))
