"""Tries the numbers TWO, and the digits of all letters."""

from itertools import permutations

claimed = 7


def is_solution(two):
    t, w, o = str(two)
    total = str(2 * two)
    if len(total) != 4 or total[1] != o:
        return False
    f, _, u, r = total
    return len({t, w, o, f, u, r}) == 6


by_numbers = sum(is_solution(two) for two in range(100, 1_000))
by_digits = sum(
    2 * (100 * t + 10 * w + o) == 1_000 * f + 100 * o + 10 * u + r
    for t, w, o, f, u, r in permutations(range(10), 6)
    if t and f
)
print(by_numbers, by_digits)
assert by_numbers == by_digits
assert by_numbers == claimed
