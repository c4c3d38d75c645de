# attack: watch the secret for accesses by others
# t3: ENOENT | ENOSYS | EPERM
# t2: ENOSYS | EPERM
# control: harm


def attack():
    watch = syscall("inotify_init1", 0)
    syscall("inotify_add_watch", watch, b"@SECRET@", 0x1)


attempt(attack)
