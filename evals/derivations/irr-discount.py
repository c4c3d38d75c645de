"""Computes the power with Decimal, and with logarithms."""

from decimal import Decimal
from math import expm1, log

claimed = "44.58"

rate = (Decimal(100) / 98) ** (Decimal(365) / 20) - 1
by_logarithms = expm1(365 / 20 * log(100 / 98))
print(rate, by_logarithms)
assert abs(float(rate) - by_logarithms) < 1e-12
assert f"{100 * rate:.2f}" == claimed
