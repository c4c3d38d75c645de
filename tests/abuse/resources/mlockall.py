# attack: lock all memory of this process
# t3: ENOMEM | EPERM | ENOSYS
# t2: ENOMEM | EPERM | ENOSYS
# control: harm as root
attempt(lambda: syscall("mlockall", 1))
