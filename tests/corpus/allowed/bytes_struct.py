# rule: none
# checks binary packing, memoryviews and arrays
import array
import struct
import sys

packed = struct.pack(">IhB5s", 0xDEADBEEF, -2, 7, b"hello")
assert packed.hex() == "deadbeeffffe0768656c6c6f"
assert struct.unpack(">IhB5s", packed) == (0xDEADBEEF, -2, 7, b"hello")
assert struct.calcsize("<IhB5s") == 12

a = array.array("H", [1, 2, 3])
if sys.byteorder == "little":
    assert a.tobytes() == b"\x01\0\x02\0\x03\0"
a.byteswap()
assert a[0] == 256

buf = bytearray(b"0123456789")
view = memoryview(buf)
view[2:4] = b"XY"
assert buf == b"01XY456789"
assert view[::2].tobytes() == b"0X468"
view.release()

def float_bits(f):
    return f"{struct.unpack('>Q', struct.pack('>d', f))[0]:064b}"

print(float_bits(0.1))
assert float_bits(-2.0) == "1" + "10000000000" + "0" * 52
assert (1024).to_bytes(2, "big") == b"\x04\0" and int.from_bytes(b"\x04\0", "little") == 4
