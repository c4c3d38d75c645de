# attack: change the scheduling of another process with the raw call
# t3: EPERM
# t2: EPERM
# control: harm
import struct

attributes = struct.pack("IIQiIQQQ", 48, 0, 0, 19, 0, 0, 0, 0)
attempt(lambda: syscall("sched_setattr", int("@VICTIM_PID@"), attributes, 0))
