"""Counts the digits, and uses SymPy's logarithm."""

from sympy import floor, log

claimed = 3_010

counted = len(str(2**10_000))
by_logarithm = int(floor(10_000 * log(2) / log(10))) + 1
print(counted, by_logarithm)
assert counted == by_logarithm
assert counted == claimed
