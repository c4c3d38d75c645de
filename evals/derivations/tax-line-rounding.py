"""Rounds each line in Decimal, and in whole cents."""

from decimal import ROUND_HALF_UP, Decimal

claimed = Decimal("3.11")

in_decimal = sum((Decimal("2.34") * 19 / 100).quantize(Decimal("0.01"), ROUND_HALF_UP) for _ in range(7))
in_cents = sum((price * 19 + 50) // 100 for price in [234] * 7)
print(in_decimal, in_cents)
assert in_decimal == Decimal(in_cents) / 100
assert in_decimal == claimed
