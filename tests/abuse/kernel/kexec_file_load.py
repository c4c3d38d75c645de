# attack: load another kernel from a file
# t3: EPERM
# t2: EPERM
# control: none, many kernels are built without it
attempt(lambda: reached(lambda: syscall("kexec_file_load", -1, -1, 0, None, 0), errno.EBADF))
