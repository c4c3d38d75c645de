# attack: load another kernel
# t3: EPERM
# t2: EPERM
# control: none, many kernels are built without it
attempt(lambda: reached(lambda: syscall("kexec_load", 0, 17, None, 0x3E0000), errno.EINVAL))
