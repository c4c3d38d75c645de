"""Subtracts the lengths, and multiplies by the ratio of the feet."""

from fractions import Fraction

claimed = "3.20"

survey, international = Fraction(1_200, 3_937), Fraction("0.3048")
difference = 1_000 * 5_280 * survey - 1_000 * 5_280 * international
by_ratio = Fraction("1609344") * (survey / international - 1)
print(float(difference), float(by_ratio))
assert difference == by_ratio
assert f"{float(difference):.2f}" == claimed
