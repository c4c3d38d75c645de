# attack: make a call through the 32-bit gate, past a filter of numbers
# t3: exit -31
# t2: exit -31
# control: harm
# only: x86_64
import ctypes
import mmap


def attack():
    # mov eax, 20 (getpid); int 0x80; ret
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=protection)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    code = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if code() != os.getpid():
        raise Denied("other answer")


attempt(attack)
