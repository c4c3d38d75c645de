"""Converts the gallon, and drives a mile first."""

from fractions import Fraction

claimed = "33.5"

gallon_litres = 231 * Fraction("2.54") ** 3 / 1_000
miles = gallon_litres / 7 * 100_000 / Fraction("1609.344")
litres_a_mile = Fraction("1.609344") * 7 / 100
print(float(miles), float(litres_a_mile))
assert miles * litres_a_mile == gallon_litres
assert f"{float(miles):.1f}" == claimed
