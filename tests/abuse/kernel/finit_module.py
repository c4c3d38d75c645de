# attack: load a kernel module from a file
# t3: EPERM
# t2: EPERM
# control: none, kernels without modules lack the call
attempt(lambda: reached(lambda: syscall("finit_module", -1, b"", 0), errno.EBADF))
