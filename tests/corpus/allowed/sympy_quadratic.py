# rule: none
# checks the roots of a quadratic and of a cubic
import sympy as sp

x = sp.symbols('x')
expr = 2*x**2 - 7*x + 3

roots = sp.solve(sp.Eq(expr, 0), x)
print("roots:", roots)
assert set(roots) == {sp.Integer(3), sp.Rational(1, 2)}

# Vieta's formulas
assert sum(roots) == sp.Rational(7, 2)
assert sp.prod(roots) == sp.Rational(3, 2)

cubic = sp.expand((x - 1) * (x + 2) * (x - 5))
print("cubic:", cubic)
assert sp.factor(cubic) == (x - 5) * (x - 1) * (x + 2)
for r in sp.solve(cubic, x):
    assert cubic.subs(x, r) == 0
print("VERIFIED: all roots satisfy the equations")
