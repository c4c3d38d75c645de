# attack: measure the machine with performance counters
# t3: EPERM
# t2: EPERM
# control: harm as root
import struct

event = struct.pack("IIQQQQQ", 1, 112, 9, 0, 0, 0, 0x60) + bytes(64)
attempt(lambda: os.close(syscall("perf_event_open", event, 0, -1, -1, 0)))
