# attack: read the segment table of this process
# t3: EPERM | ENOSYS
# t2: EPERM | ENOSYS
# control: harm
# only: x86_64
import ctypes

attempt(lambda: syscall("modify_ldt", 0, ctypes.create_string_buffer(16), 16))
