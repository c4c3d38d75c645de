# attack: set the inode flags of a scratch file (the call that makes files undeletable)
# t3: EPERM
# t2: EPERM
# control: harm
import fcntl


def attack():
    file = os.open("flags", os.O_RDWR | os.O_CREAT, 0o600)
    flags = fcntl.ioctl(file, 0x80086601, bytes(8))
    fcntl.ioctl(file, 0x40086602, flags)


attempt(lambda: reached(attack, errno.ENOTTY, errno.EOPNOTSUPP))
