# attack: read the size of the kernel log
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: syscall("syslog", 10, None, 0))
