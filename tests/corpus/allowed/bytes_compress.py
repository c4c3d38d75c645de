# rule: none
# checks compression round trips and ratios in memory
import bz2
import gzip
import io
import lzma
import pickle
import zlib

text = ("the quick brown fox " * 200).encode()
for name, comp, decomp in [
    ("zlib", zlib.compress, zlib.decompress),
    ("gzip", gzip.compress, gzip.decompress),
    ("bz2", bz2.compress, bz2.decompress),
    ("lzma", lzma.compress, lzma.decompress),
]:
    packed = comp(text)
    assert decomp(packed) == text
    print(f"{name:5} {len(text)} -> {len(packed)} ({len(packed) / len(text):.1%})")
    assert len(packed) < len(text) / 10

sizes = {proto: len(pickle.dumps(list(range(1000)), protocol=proto)) for proto in range(pickle.HIGHEST_PROTOCOL + 1)}
print("pickle sizes:", sizes)
assert sizes[2] < sizes[0]

d = zlib.decompressobj()
out = b"".join(d.decompress(bytes([b])) for b in zlib.compress(text)) + d.flush()
assert out == text
stream = io.BytesIO(b"abc")
assert stream.read(2) == b"ab" and stream.tell() == 2
