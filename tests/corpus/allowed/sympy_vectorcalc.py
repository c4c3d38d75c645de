# rule: none
# checks gradient, divergence and curl identities
from sympy.vector import CoordSys3D, gradient, divergence, curl, Vector
from sympy import sin, exp, simplify, symbols, hessian, Matrix

N = CoordSys3D("N")
phi = N.x**2 * N.y + sin(N.z)
F = N.x * N.y * N.i + N.y * N.z * N.j + exp(N.x) * N.k

g = gradient(phi)
print("grad:", g)
assert g == 2 * N.x * N.y * N.i + N.x**2 * N.j + sin(N.z).diff(N.z) * N.k
assert curl(g) == Vector.zero, "curl of a gradient vanishes"
assert simplify(divergence(curl(F))) == 0, "divergence of a curl vanishes"
print("div F =", divergence(F))

x, y = symbols("x y")
H = hessian(x**3 + y**3 - 3 * x * y, (x, y))
print(H)
assert H == Matrix([[6 * x, -3], [-3, 6 * y]])
assert H.subs({x: 1, y: 1}).is_positive_definite
