# attack: release the memory of a dying process outside
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
attempt(lambda: reached(lambda: syscall("process_mrelease", -1, 0), errno.EBADF))
