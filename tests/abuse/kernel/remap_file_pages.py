# attack: reach an old memory call that is hardly used
# t3: ENOSYS | EPERM
# t2: ENOSYS | EPERM
# control: harm
attempt(lambda: reached(lambda: syscall("remap_file_pages", 0, 0, 0, 0, 0), errno.EINVAL))
