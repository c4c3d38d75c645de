# attack: reach the reboot call (with wrong magic numbers)
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: syscall("reboot", 0, 0, 0, 0), errno.EINVAL))
