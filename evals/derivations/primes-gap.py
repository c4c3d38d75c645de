"""Compares consecutive primes of a sieve, and of SymPy."""

from sympy import primerange

claimed = 72

limit = 100_000
is_prime = bytearray([1]) * limit
is_prime[0:2] = b"\0\0"
for n in range(2, int(limit**0.5) + 1):
    if is_prime[n]:
        is_prime[n * n :: n] = bytes(len(range(n * n, limit, n)))
sieved = [n for n in range(limit) if is_prime[n]]

listed = list(primerange(100_000))
from_sieve = max(after - before for before, after in zip(sieved, sieved[1:]))
from_sympy = max(listed[n + 1] - listed[n] for n in range(len(listed) - 1))
print(from_sieve, from_sympy)
assert from_sieve == from_sympy
assert from_sieve == claimed
