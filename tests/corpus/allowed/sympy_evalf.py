# rule: none
# checks high-precision values of constants and radicals
from sympy import pi, E, sqrt, N, nsimplify, Rational, GoldenRatio, zeta, cos
import mpmath

print(N(pi, 50))
assert str(N(pi, 20)) == "3.1415926535897932385"
assert str(E.evalf(15)) == "2.71828182845905"

expr = sqrt(2 + sqrt(3)) - (sqrt(6) + sqrt(2)) / 2
assert abs(expr.evalf(40)) < 1e-30
assert nsimplify(0.125) == Rational(1, 8)
assert (GoldenRatio**2 - GoldenRatio - 1).simplify() == 0
assert abs(cos(pi / 5).evalf() - GoldenRatio.evalf() / 2) < 1e-12

with mpmath.workdps(30):
    z3 = mpmath.zeta(3)
    print("zeta(3) =", z3)
    assert mpmath.almosteq(z3, mpmath.mpf(str(zeta(3).evalf(30))), 1e-25)
