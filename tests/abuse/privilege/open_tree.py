# attack: copy the mount tree with open_tree
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: os.close(syscall("open_tree", AT_FDCWD, b"/", 1)))
