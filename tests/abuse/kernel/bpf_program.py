# attack: load a small socket filter program with bpf
# t3: EPERM
# t2: EPERM
# control: harm as root
import ctypes
import struct


def attack():
    code = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    code = ctypes.create_string_buffer(code)
    text = ctypes.create_string_buffer(b"GPL")
    request = struct.pack("IIQQIIQII", 1, 2, ctypes.addressof(code), ctypes.addressof(text), 0, 0, 0, 0, 0)
    os.close(syscall("bpf", 5, request + bytes(128 - len(request)), 128))


attempt(attack)
