"""Factors with SymPy, and searches a quadratic factor with integer coefficients."""

from sympy import Poly, div, symbols

claimed = "irreducible"

x = symbols("x")
polynomial = Poly(x**5 - 5 * x + 3, x)
# The constant term of a factor divides 3. The polynomial has no integer root, because no divisor of 3 is one.
candidates = [Poly(x**2 + b * x + c, x) for b in range(-10, 11) for c in (-3, -1, 1, 3)]
quadratic = [factor for factor in candidates if div(polynomial, factor)[1].is_zero]
print(polynomial.factor_list(), quadratic)
assert polynomial.is_irreducible == (not quadratic and all(polynomial.eval(n) for n in (-3, -1, 1, 3)))
found = "irreducible" if polynomial.is_irreducible else "reducible"
assert found == claimed
