"""Counts neighbours in SymPy's list, and pairs in a sieve."""

from sympy import primerange

claimed = 1_225

limit = 100_000
is_prime = bytearray([1]) * limit
is_prime[0:2] = b"\0\0"
for n in range(2, int(limit**0.5) + 1):
    if is_prime[n]:
        is_prime[n * n :: n] = bytes(len(range(n * n, limit, n)))
sieved = [n for n in range(limit) if is_prime[n]]

in_sieve = sum(is_prime[n] and is_prime[n + 2] for n in range(limit - 2))
listed = set(primerange(100_000))
in_list = len([p for p in listed if p + 2 in listed])
print(in_sieve, in_list)
assert in_sieve == in_list
assert in_sieve == claimed
