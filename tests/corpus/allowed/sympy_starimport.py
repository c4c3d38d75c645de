# rule: none
# verifies the product rule and chain rule with star import
from sympy import *

x, h = symbols('x h')
f = x**3
g = sin(x)

product_rule = diff(f*g, x) - (diff(f, x)*g + f*diff(g, x))
assert simplify(product_rule) == 0

chain = diff(sin(x**2), x)
assert chain == 2*x*cos(x**2)

# derivative from first principles
dq = ((x + h)**3 - x**3) / h
assert limit(expand(dq), h, 0) == 3*x**2

# critical points of a cubic
p = x**3 - 3*x
crit = solve(diff(p, x), x)
print("critical points:", crit)
kinds = {c: ('min' if diff(p, x, 2).subs(x, c) > 0 else 'max') for c in crit}
print(kinds)
assert kinds == {1: 'min', -1: 'max'}
init_printing(use_unicode=False)
pprint(Integral(f, x))
