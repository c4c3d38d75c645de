# attack: take a mounted file system to change its options
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: os.close(syscall("fspick", AT_FDCWD, b"missing", 0)), errno.ENOENT))
