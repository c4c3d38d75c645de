"""Divides each candidate by every odd number up to the root, and asks SymPy."""

import numpy as np
from sympy import nextprime

claimed = 10_000_000_000_037

odd = np.arange(3, 3_162_300, 2)
candidate = 10_000_000_000_001
while (candidate % odd == 0).any():
    candidate += 2
print(candidate, nextprime(10**13))
assert candidate == nextprime(10**13)
assert candidate == claimed
