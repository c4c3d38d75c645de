# attack: make a user namespace, in which it is root
# t3: EPERM
# t2: EPERM
# control: harm
attempt(lambda: in_child(lambda: syscall("unshare", 0x10000000)))
