# rule: none
# checks classical limits, one-sided limits and a limit at infinity
from sympy import Symbol, limit, sin, cos, exp, oo, E, Rational, S

x = Symbol("x")
n = Symbol("n", positive=True, integer=True)

tests = [
    (sin(x) / x, x, 0, "+-", S.One),
    ((1 - cos(x)) / x**2, x, 0, "+-", Rational(1, 2)),
    ((exp(x) - 1) / x, x, 0, "+-", S.One),
    (1 / x, x, 0, "+", oo),
    (1 / x, x, 0, "-", -oo),
]
for f, var, pt, direction, want in tests:
    got = limit(f, var, pt, direction)
    print(f"lim {f} as {var}->{pt}{direction} = {got}")
    assert got == want, (f, got, want)

got = limit((1 + 1 / n) ** n, n, oo)
assert got == E
print("lim (1+1/n)^n =", got)
