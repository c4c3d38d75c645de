"""Divides the factorial by 12, and counts the factors 2 and 3."""

from math import factorial

claimed = 497

rest, zeros = factorial(1_000), 0
while rest % 12 == 0:
    rest, zeros = rest // 12, zeros + 1
twos = sum(1_000 // 2**power for power in range(1, 10))
threes = sum(1_000 // 3**power for power in range(1, 7))
print(zeros, twos, threes)
assert zeros == min(twos // 2, threes)
assert zeros == claimed
