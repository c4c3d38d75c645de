"""Divides with rounding, and compares with the limits between which values round to a number."""

from fractions import Fraction

claimed = "34.5"

metres = 20 * 90 * 1_852 // 60
miles = metres / Fraction("1609.344")
# In millimetres, a tenth of a mile has 160,934.4. All terms are multiplied by 20, so that they are whole.
between = [n for n in range(1_000) if (2 * n - 1) * 1_609_344 <= metres * 20_000 < (2 * n + 1) * 1_609_344]
print(metres, float(miles), between)
assert between == [round(10 * miles)]
assert f"{float(miles):.1f}" == claimed
