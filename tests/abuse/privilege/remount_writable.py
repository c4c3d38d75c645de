# attack: make a read-only mount writable
# t3: EPERM
# t2: EPERM
# control: harm as root
# the scratch folder's sub-folder is not a mount point, so EINVAL comes after the rights check


def attack():
    os.mkdir("sub")
    syscall("mount", b"none", b"sub", None, 0x1020, None)


attempt(lambda: reached(attack, errno.EINVAL))
