"""Searches the income, and inverts the last bracket."""

from fractions import Fraction
from math import ceil

claimed = 84_545


def after_tax(income):
    parts = [(10_000, 20), (30_000, 15), (70_000, 10)]
    return income - sum(Fraction(max(income - limit, 0) * step, 100) for limit, step in parts)


searched = next(income for income in range(60_000, 120_000) if after_tax(income) >= 60_000)
# 70,000 leaves 10,000 + 0.80 * 20,000 + 0.65 * 40,000.
inverted = 70_000 + ceil((60_000 - Fraction(52_000)) / Fraction(55, 100))
print(searched, inverted)
assert searched == inverted
assert searched == claimed
