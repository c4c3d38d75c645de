"""Counts with a sieve of NumPy, and with SymPy's prime-counting function."""

import numpy as np
from sympy import primepi

claimed = 41_537

is_prime = np.ones(500_001, dtype=bool)
is_prime[:2] = False
for n in range(2, 708):
    if is_prime[n]:
        is_prime[n * n :: n] = False
counted = int(is_prime.sum())
print(counted, primepi(500_000))
assert counted == primepi(500_000)
assert counted == claimed
