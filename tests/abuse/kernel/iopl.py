# attack: reach the ports of the hardware
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: none, the call can be left out of the kernel
attempt(lambda: syscall("iopl", 3))
