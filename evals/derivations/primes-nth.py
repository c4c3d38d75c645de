"""Reads the prime from a sieve, and asks SymPy for it."""

from sympy import prime

claimed = 132_241

limit = 140_000
is_prime = bytearray([1]) * limit
is_prime[0:2] = b"\0\0"
for n in range(2, int(limit**0.5) + 1):
    if is_prime[n]:
        is_prime[n * n :: n] = bytes(len(range(n * n, limit, n)))
sieved = [n for n in range(limit) if is_prime[n]]

print(prime(12_345), sieved[12_344])
assert prime(12_345) == sieved[12_344]
assert sieved[12_344] == claimed
