# attack: push typed characters into the terminal of the server
# t3: EPERM
# t2: EPERM
# control: harm
import fcntl

attempt(lambda: reached(lambda: fcntl.ioctl(0, 0x5412, b"\0"), errno.ENOTTY, errno.EINVAL))
