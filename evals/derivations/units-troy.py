"""Subtracts the grains, and the pounds in grams."""

from decimal import ROUND_HALF_UP, Decimal

claimed = Decimal("80.3")

by_grains = (7_000 - 5_760) * Decimal("64.79891") / 1_000
by_grams = Decimal("453.59237") - Decimal("373.2417216")
print(by_grains, by_grams)
assert by_grains == by_grams
assert by_grains.quantize(Decimal("0.1"), ROUND_HALF_UP) == claimed
