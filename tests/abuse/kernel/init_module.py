# attack: load a kernel module from memory
# t3: EPERM
# t2: EPERM
# control: none, kernels without modules lack the call
attempt(lambda: reached(lambda: syscall("init_module", b"x", 1, b""), errno.ENOEXEC))
