# attack: allocate memory that other processes cannot see or count
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
attempt(lambda: os.close(syscall("memfd_secret", 0)))
