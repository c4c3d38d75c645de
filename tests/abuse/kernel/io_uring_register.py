# attack: reach the registration call of io_uring
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: reached(lambda: syscall("io_uring_register", -1, 0, None, 0), errno.EBADF, errno.EINVAL))
