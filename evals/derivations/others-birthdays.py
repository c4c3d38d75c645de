"""Multiplies exact fractions, and floating-point logarithms."""

from fractions import Fraction
from math import exp, log1p

claimed = 57

different, people = Fraction(1), 0
while 1 - different < Fraction(99, 100):
    different *= Fraction(365 - people, 365)
    people += 1
by_logarithms = next(n for n in range(366) if exp(sum(log1p(-k / 365) for k in range(n))) <= 0.01)
print(people, by_logarithms)
assert people == by_logarithms
assert people == claimed
