# rule: none
# checks the gaussian integral and some definite integrals
from sympy import symbols, integrate, exp, oo, sqrt, pi, sin, log, simplify

x = symbols("x", real=True)
a = symbols("a", positive=True)

claims = {
    "gauss": (integrate(exp(-x**2), (x, -oo, oo)), sqrt(pi)),
    "gauss_a": (integrate(exp(-a * x**2), (x, -oo, oo)), sqrt(pi / a)),
    "sin2": (integrate(sin(x) ** 2, (x, 0, pi)), pi / 2),
    "log": (integrate(log(x), (x, 1, 2)), 2 * log(2) - 1),
}

ok = True
for name, (computed, claimed) in claims.items():
    diff = simplify(computed - claimed)
    print(f"{name:10s} computed={computed} claimed={claimed} diff={diff}")
    ok &= diff == 0
assert ok, "some integral claim is wrong"
print("All integral claims hold.")
