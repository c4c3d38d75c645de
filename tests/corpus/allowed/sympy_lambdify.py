# rule: none
# compares a lambdified function with symbolic values
import math
import sympy as sp
from sympy.utilities.lambdify import lambdify

x, y = sp.symbols("x y")
expr = sp.sin(x) * sp.exp(-y) + x**2 / (1 + y)

f = lambdify((x, y), expr, "math")
grad = [lambdify((x, y), sp.diff(expr, v), modules="math") for v in (x, y)]

def numeric_partial(fn, args, i, h=1e-6):
    up = list(args); up[i] += h
    dn = list(args); dn[i] -= h
    return (fn(*up) - fn(*dn)) / (2 * h)

for pt in [(0.3, 0.7), (1.2, 0.1), (-2.0, 1.5)]:
    exact = float(expr.subs({x: pt[0], y: pt[1]}))
    assert math.isclose(f(*pt), exact, rel_tol=1e-12)
    for i in range(2):
        assert abs(grad[i](*pt) - numeric_partial(f, pt, i)) < 1e-6
    print(pt, f(*pt))
print("lambdify agrees with subs and finite differences")
