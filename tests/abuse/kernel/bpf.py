# attack: load an object into the kernel with bpf
# t3: EPERM
# t2: EPERM
# control: harm as root
import struct

attempt(lambda: os.close(syscall("bpf", 0, struct.pack("IIIII", 2, 4, 8, 1, 0) + bytes(108), 128)))
