# attack: open a file system context with the new mount calls
# t3: EPERM
# t2: EPERM
# control: harm as root
attempt(lambda: os.close(syscall("fsopen", b"tmpfs", 0)))
