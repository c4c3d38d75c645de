# attack: unmount a file system, to see the files below it
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: syscall("umount2", b"missing", 2), errno.ENOENT))
