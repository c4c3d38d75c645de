"""Lists all throws, and expands the generating polynomial with SymPy."""

from fractions import Fraction
from itertools import product

from sympy import Poly, symbols

claimed = Fraction(35, 216)

throws = list(product(range(1, 7), repeat=3))
listed = Fraction(sum(sum(throw) >= 14 for throw in throws), len(throws))
x = symbols("x")
terms = Poly((x + x**2 + x**3 + x**4 + x**5 + x**6) ** 3, x).terms()
expanded = Fraction(int(sum(count for (power,), count in terms if power >= 14)), 6**3)
print(listed, expanded)
assert listed == expanded
assert listed == claimed
