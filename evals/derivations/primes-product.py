"""Divides by every odd number up to the root, and asks SymPy."""

import numpy as np
from sympy import isprime

claimed = "prime"

number = 1_000_036_000_099
odd = np.arange(3, 1_000_020, 2)
divisors = odd[number % odd == 0]
print(divisors)
assert isprime(number) == (len(divisors) == 0)
found = "composite" if len(divisors) else "prime"
assert found == claimed
