# rule: none
# solves a linear system in three ways and compares the answers
from sympy import symbols, linsolve, Matrix, solve, Rational, Eq

x, y, z = symbols("x y z")
eqs = [Eq(2*x + y - z, 8), Eq(-3*x - y + 2*z, -11), Eq(-2*x + y + 2*z, -3)]

by_solve = solve(eqs, (x, y, z), dict=True)[0]
by_lin = next(iter(linsolve(eqs, x, y, z)))
A = Matrix([[2, 1, -1], [-3, -1, 2], [-2, 1, 2]])
b = Matrix([8, -11, -3])
by_lu = A.LUsolve(b)

print(by_solve, by_lin, list(by_lu))
assert tuple(by_solve[v] for v in (x, y, z)) == tuple(by_lin) == tuple(by_lu) == (2, 3, -1)

aug, pivots = A.row_join(b).rref()
print(aug, pivots)
assert pivots == (0, 1, 2)

# Cramer's rule for x
Ax = A.copy()
Ax[:, 0] = b
assert Rational(Ax.det(), A.det()) == 2
