"""Adds in hardware, and rounds each exact sum."""

from fractions import Fraction

import numpy as np

claimed = "equal"

in_hardware = float(np.cumsum(np.full(7, 0.1))[-1])
rounded = 0.0
for _ in range(7):
    rounded = float(Fraction(rounded) + Fraction(0.1))
print(in_hardware, rounded)
assert in_hardware == rounded
found = "equal" if rounded == float("0.7") else "not equal"
assert found == claimed
