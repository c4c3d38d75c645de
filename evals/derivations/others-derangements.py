"""Counts with the recursion, and with inclusion and exclusion."""

from math import comb, factorial

claimed = 1_334_960

before, count = 1, 0
for n in range(2, 11):
    before, count = count, (n - 1) * (count + before)
by_exclusion = sum((-1) ** k * comb(10, k) * factorial(10 - k) for k in range(11))
print(count, by_exclusion)
assert count == by_exclusion
assert count == claimed
