# attack: reach the ports of the hardware
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: none, the call can be left out of the kernel
# only: x86_64
attempt(lambda: syscall("iopl", 3))
