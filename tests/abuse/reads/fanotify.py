# attack: make a group that sees file events of the whole machine
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm as root
attempt(lambda: syscall("fanotify_init", 0, 0))
