# attack: stop the kernel at page faults, a helper of many exploits
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: os.close(syscall("userfaultfd", 1)))
