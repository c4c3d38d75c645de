"""Reads the bit pattern of 1, and counts the numbers with each exponent."""

import numpy as np

claimed = 1_065_353_216

# Positive numbers have consecutive bit patterns, and 0 has the pattern 0.
by_pattern = int(np.float32(1).view(np.uint32)) - 1
subnormal, normal = 2**23 - 1, 126 * 2**23
print(by_pattern, subnormal + normal)
assert by_pattern == subnormal + normal
assert by_pattern == claimed
