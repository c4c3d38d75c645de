"""Divides with rounding, and compares with the limits between which values round to a number."""

from fractions import Fraction

claimed = "6:44"

bits = Fraction("4.7") * 2**30 * 8
seconds = round(bits / 100_000_000)
between = [n for n in range(1_000) if (2 * n - 1) * 50_000_000 <= bits < (2 * n + 1) * 50_000_000]
print(seconds, between, float(bits / 100_000_000))
assert [seconds] == between
assert f"{seconds // 60}:{seconds % 60:02}" == claimed
