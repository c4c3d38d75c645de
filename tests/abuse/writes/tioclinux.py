# attack: paste text into the console with the selection call
# t3: EPERM
# t2: EPERM
# control: harm
import fcntl

attempt(lambda: reached(lambda: fcntl.ioctl(0, 0x541C, b"\xff"), errno.ENOTTY, errno.EINVAL))
