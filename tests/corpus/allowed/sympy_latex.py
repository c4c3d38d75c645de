# rule: none
# prints latex and pretty forms of a formula and checks substrings
from sympy import symbols, latex, pretty, Integral, Sum, oo, sqrt, pi, exp, srepr, Rational

x, n = symbols("x n")
expr = Integral(exp(-x**2), (x, -oo, oo))
tex = latex(expr)
print(tex)
assert r"\int" in tex and r"\infty" in tex

basel = Sum(1 / n**2, (n, 1, oo))
print(latex(basel), "=", latex(basel.doit()))
assert basel.doit() == pi**2 / 6
assert latex(Rational(3, 4)) == r"\frac{3}{4}"
assert latex(sqrt(2)) == r"\sqrt{2}"

print(pretty(expr, use_unicode=False))
print(srepr(x + 1))
assert srepr(x + 1) == "Add(Symbol('x'), Integer(1))"
