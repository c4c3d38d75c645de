# rule: none
# checks known digests, hmac and base64 values
import base64
import hashlib
import hmac
import zlib
import binascii

assert hashlib.md5(b"").hexdigest() == "d41d8cd98f00b204e9800998ecf8427e"
assert hashlib.sha256(b"abc").hexdigest().startswith("ba7816bf")
assert hashlib.sha1(b"abc").hexdigest() == "a9993e364706816aba3e25717850c26c9cd0d89d"

h = hashlib.sha256()
for chunk in (b"a", b"b", b"c"):
    h.update(chunk)
assert h.digest() == hashlib.new("sha256", b"abc").digest()

mac = hmac.new(b"key", b"The quick brown fox jumps over the lazy dog", hashlib.sha256).hexdigest()
print(mac)
assert hmac.compare_digest(mac, "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8")

token = base64.urlsafe_b64encode(b"\xfb\xef\xff").decode()
assert token == "--__" and base64.urlsafe_b64decode(token) == b"\xfb\xef\xff"
assert base64.b64decode("aGVsbG8=") == b"hello"
assert binascii.unhexlify("68690a") == b"hi\n" == bytes.fromhex("68690a")
assert zlib.crc32(b"123456789") == 0xCBF43926
dk = hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1000)
print(len(dk), dk.hex()[:16])
