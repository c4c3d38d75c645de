# attack: change the attributes of a mount
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: syscall("mount_setattr", AT_FDCWD, b".", 0, bytes(32), 32))
