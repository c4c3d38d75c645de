# attack: create a control group namespace
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: in_child(lambda: syscall("unshare", 0x2000000)))
