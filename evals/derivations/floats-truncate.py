"""Multiplies in hardware, and rounds the exact product."""

from fractions import Fraction

import numpy as np

claimed = 434

in_hardware = int(np.multiply(np.float64("4.35"), 100.0))
rounded = int(float(Fraction(4.35) * 100))
print(in_hardware, float(Fraction(4.35) * 100))
assert in_hardware == rounded
assert in_hardware == claimed
