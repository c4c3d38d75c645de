# attack: switch the process accounting to another file
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: reached(lambda: syscall("acct", b"missing"), errno.ENOENT))
