# attack: load a line discipline of the kernel (an often broken part)
# t3: EPERM
# t2: EPERM
# control: harm
import fcntl
import struct

attempt(lambda: reached(lambda: fcntl.ioctl(0, 0x5423, struct.pack("i", 99)), errno.ENOTTY, errno.EINVAL))
