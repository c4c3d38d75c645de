"""Compares exactly in Decimal, and as fractions."""

from decimal import Decimal
from fractions import Fraction

claimed = "greater"

is_greater = Decimal(1.005) > Decimal("1.005")
print(Decimal(1.005))
assert is_greater == (Fraction(1.005) > Fraction(1_005, 1_000))
found = "greater" if is_greater else "not greater"
assert found == claimed
