# rule: none
# verifies several numbered claims and prints a summary table
from sympy import symbols, simplify, expand, Eq, solve, sqrt, Rational, binomial, pi, integrate, cos

x, n = symbols("x n")
CLAIMS = []

def claim(text):
    def register(fn):
        CLAIMS.append((text, fn))
        return fn
    return register

@claim("(x+2)^3 expands to x^3+6x^2+12x+8")
def _():
    return expand((x + 2) ** 3) - (x**3 + 6*x**2 + 12*x + 8) == 0

@claim("x^2 = 2 has the solutions +-sqrt(2)")
def _():
    return set(solve(Eq(x**2, 2), x)) == {sqrt(2), -sqrt(2)}

@claim("C(10,3) = 120")
def _():
    return binomial(10, 3) == 120

@claim("the integral of cos over [0, pi/2] is 2")
def _():
    return integrate(cos(x), (x, 0, pi / 2)) == 2

results = []
for number, (text, fn) in enumerate(CLAIMS, start=1):
    ok = bool(fn())
    results.append(ok)
    print(f"{number}. {'TRUE ' if ok else 'FALSE'} {text}")
print(f"{sum(results)} of {len(results)} claims hold")
assert results == [True, True, True, False]
assert simplify(Rational(1, 3) + Rational(1, 6)) == Rational(1, 2)
