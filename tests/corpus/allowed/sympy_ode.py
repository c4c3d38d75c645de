# rule: none
# checks a solution of a differential equation by substitution
import sympy as sp

t = sp.symbols("t")
y = sp.Function("y")

ode = sp.Eq(y(t).diff(t, 2) + 3 * y(t).diff(t) + 2 * y(t), 0)
sol = sp.dsolve(ode, y(t), ics={y(0): 1, y(t).diff(t).subs(t, 0): 0})
print(sol)
assert sp.simplify(sol.rhs - (2 * sp.exp(-t) - sp.exp(-2 * t))) == 0

ok, residual = sp.checkodesol(ode, sol)
print("checkodesol:", ok, "residual:", residual)
assert ok and residual == 0

# logistic growth, claimed solution
r, K, P0 = sp.symbols("r K P0", positive=True)
P = K / (1 + (K - P0) / P0 * sp.exp(-r * t))
lhs = sp.diff(P, t)
rhs = r * P * (1 - P / K)
assert sp.simplify(lhs - rhs) == 0
print("logistic solution verified")
