# rule: none
# checks properties of secrets tokens and uuids
import secrets
import string
import uuid

tok = secrets.token_hex(16)
assert len(tok) == 32 and set(tok) <= set(string.hexdigits.lower())
assert len({secrets.token_urlsafe(8) for _ in range(1000)}) == 1000

alphabet = string.ascii_letters + string.digits
password = "".join(secrets.choice(alphabet) for _ in range(20))
assert len(password) == 20 and password.isalnum()
assert all(0 <= secrets.randbelow(6) < 6 for _ in range(100))
assert secrets.compare_digest("same", "same")

u = uuid.uuid4()
print(u, u.version, u.variant)
assert u.version == 4 and uuid.UUID(str(u)) == u
assert uuid.uuid5(uuid.NAMESPACE_DNS, "python.org") == uuid.UUID("886313e1-3b8a-5372-9b90-0c9aee199e5d")

bits = 62 ** 20
print("entropy of password: about", bits.bit_length() - 1, "bits")
assert bits.bit_length() > 119
