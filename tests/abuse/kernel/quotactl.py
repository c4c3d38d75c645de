# attack: reach the disk quota code
# t3: EPERM
# t2: EPERM
# control: harm
answers = (errno.ENOENT, errno.ENODEV, errno.EFAULT, errno.ENOTBLK, errno.EINVAL)
attempt(lambda: reached(lambda: syscall("quotactl", 0x800001 << 8, None, 0, None), *answers))
