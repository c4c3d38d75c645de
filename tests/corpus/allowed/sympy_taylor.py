# rule: none
# checks taylor series coefficients of elementary functions
import math
from sympy import symbols, series, sin, cos, exp, log, Rational, factorial

x = symbols('x')

s = series(sin(x), x, 0, 8).removeO()
print("sin:", s)
for k in range(8):
    c = s.coeff(x, k)
    want = 0 if k % 2 == 0 else Rational((-1) ** (k // 2)) / factorial(k)
    assert c == want, (k, c, want)

e = series(exp(x), x, 0, 6).removeO()
assert all(e.coeff(x, k) == Rational(1, math.factorial(k)) for k in range(6))

l = series(log(1 + x), x, 0, 5).removeO()
assert l == x - x**2 / 2 + x**3 / 3 - x**4 / 4

c = series(cos(x), x, 0, 6)
print("cos:", c, "| order term:", c.getO())
err = abs(float(s.subs(x, 0.5)) - math.sin(0.5))
print(f"error at 0.5: {err:.2e}")
assert err < 1e-8
