# attack: reach the submit call of io_uring
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: reached(lambda: syscall("io_uring_enter", -1, 0, 0, 0, None, 0), errno.EBADF))
