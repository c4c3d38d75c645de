# rule: none
# checks closed forms of finite and infinite sums
from sympy import symbols, summation, factor, oo, Rational, simplify, product

n, k = symbols("n k", integer=True, positive=True)

forms = {
    "sum k": (summation(k, (k, 1, n)), n * (n + 1) / 2),
    "sum k^2": (summation(k**2, (k, 1, n)), n * (n + 1) * (2 * n + 1) / 6),
    "sum k^3": (summation(k**3, (k, 1, n)), (n * (n + 1) / 2) ** 2),
    "sum 2^k": (summation(2**k, (k, 0, n)), 2 ** (n + 1) - 1),
}
for name, (got, claimed) in forms.items():
    assert simplify(got - claimed) == 0, name
    print(name, "=", factor(got))

assert summation(Rational(1, 2) ** k, (k, 1, oo)) == 1
assert product(k, (k, 1, 6)) == 720

# sanity check against brute force
for m in range(1, 30):
    assert sum(i**3 for i in range(1, m + 1)) == forms["sum k^3"][1].subs(n, m)
print("closed forms verified")
