# attack: give memory advice for another process
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
attempt(lambda: reached(lambda: syscall("process_madvise", -1, None, 0, 20, 0), errno.EBADF))
