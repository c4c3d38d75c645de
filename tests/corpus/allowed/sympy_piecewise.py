# rule: none
# checks a tax formula written as a Piecewise function
from sympy import Piecewise, symbols, Rational, diff, integrate, Max

x = symbols("x", nonnegative=True)
tax = Piecewise(
    (x * Rational(10, 100), x <= 10000),
    (1000 + (x - 10000) * Rational(20, 100), x <= 40000),
    (7000 + (x - 40000) * Rational(30, 100), True),
)

def plain(income):
    due = 0
    for lo, hi, rate in [(0, 10000, 10), (10000, 40000, 20), (40000, None, 30)]:
        top = income if hi is None else min(income, hi)
        if top > lo:
            due += (top - lo) * rate
    return Rational(due, 100)

for income in (0, 5000, 10000, 10001, 39999, 40000, 75000):
    got = tax.subs(x, income)
    print(f"{income:>6} -> {got}")
    assert got == plain(income)

assert integrate(Max(x, 1), (x, 0, 2)) == Rational(5, 2)
assert diff(tax, x).subs(x, 50000) == Rational(3, 10)
