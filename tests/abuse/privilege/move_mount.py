# attack: move a mount to another place
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: syscall("move_mount", -1, b"", -1, b"", 0x44), errno.EBADF))
