# rule: none
# checks polynomial gcd, division and discriminants
from sympy import Poly, symbols, gcd, div, resultant, discriminant, factor_list, expand, roots, I

x = symbols("x")
f = Poly(x**4 - 1, x)
g = Poly(x**3 - x, x)

h = f.gcd(g)
print("gcd:", h.as_expr())
assert h == Poly(x**2 - 1, x)

q, r = div(f, Poly(x - 2, x))
print("quotient", q.as_expr(), "remainder", r.as_expr())
assert r.as_expr() == 15 == f.eval(2)
assert (q * Poly(x - 2, x) + r) == f

assert discriminant(x**2 - 3*x + 1, x) == 5
assert resultant(x**2 - 1, x - 1, x) == 0
c, factors = factor_list(x**4 - 1)
print(c, factors)
assert len(factors) == 3
assert roots(x**4 - 1) == {1: 1, -1: 1, I: 1, -I: 1}
assert expand((x - 1) * (x + 1) * (x**2 + 1)) == x**4 - 1
