"""Computes both households, and the income from which more income pays off."""

from decimal import Decimal
from fractions import Fraction

claimed = "less"


def remaining(income):
    tax = Decimal("0.15") * min(income, 25_000) + Decimal("0.22") * max(income - 25_000, 0)
    return income - tax + (1_500 if income <= 40_000 else 0)


even = 40_000 + Fraction(1_500, 1) / Fraction(78, 100)
difference = remaining(41_923) - remaining(40_000)
print(difference, float(even))
assert (difference < 0) == (41_923 < even)
found = "less" if difference < 0 else "not less"
assert found == claimed
