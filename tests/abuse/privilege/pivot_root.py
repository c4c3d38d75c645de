# attack: exchange the root folder
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: syscall("pivot_root", b"missing", b"missing"), errno.ENOENT))
