# attack: read and so be able to set the limits of another process
# t3: EPERM
# t2: EPERM
# control: harm
import ctypes

attempt(lambda: syscall("prlimit64", int("@VICTIM_PID@"), 7, None, ctypes.create_string_buffer(16)))
