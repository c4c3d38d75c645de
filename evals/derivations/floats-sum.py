"""Adds in hardware, and rounds the exact sum."""

from fractions import Fraction

import numpy as np

claimed = "equal"

in_hardware = float(np.add(np.float64("0.1"), np.float64("0.7")))
rounded = float(Fraction(0.1) + Fraction(0.7))
print(in_hardware, rounded)
assert in_hardware == rounded
found = "equal" if in_hardware == float("0.8") else "not equal"
assert found == claimed
