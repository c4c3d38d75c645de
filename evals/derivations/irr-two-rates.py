"""Solves the equation with SymPy, and with the quadratic formula."""

from fractions import Fraction
from math import isqrt

from sympy import Rational, solve, symbols

claimed = [Fraction(1, 10), Fraction(1, 5)]

rate = symbols("rate", real=True)
solutions = solve(-1_000 + 2_300 / (1 + rate) - Rational(1_320) / (1 + rate) ** 2, rate)
by_sympy = sorted(Fraction(int(it.p), int(it.q)) for it in solutions if it > -1)
# With g = 1 + rate, the equation is 1000 g² - 2300 g + 1320 = 0.
root = isqrt(2_300**2 - 4 * 1_000 * 1_320)
by_formula = sorted(Fraction(2_300 + sign * root, 2_000) - 1 for sign in (-1, 1))
print(by_sympy, by_formula)
assert by_sympy == by_formula
assert by_sympy == claimed
