# attack: make a call by its x32 number, past a filter of numbers
# t3: exit -31
# t2: exit -31
# control: harm
# only: x86_64
# most kernels have no x32: they answer ENOSYS instead of killing
attempt(lambda: reached(lambda: syscall(39 | 0x40000000), errno.ENOSYS))
