# attack: make a socket by its x32 number
# t3: exit -31
# t2: exit -31
# control: harm
# only: x86_64
attempt(lambda: reached(lambda: syscall(41 | 0x40000000, 2, 1, 0), errno.ENOSYS))
