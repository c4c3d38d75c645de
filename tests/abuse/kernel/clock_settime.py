# attack: set the clock with clock_settime (to an invalid time)
# t3: EPERM
# t2: EPERM
# control: harm
import struct

attempt(lambda: reached(lambda: syscall("clock_settime", 0, struct.pack("qq", 0, -1)), errno.EINVAL))
