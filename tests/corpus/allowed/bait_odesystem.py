# rule: none
# integrates an ODE whose right-hand side is called system
import math

def system(t, state, omega=2.0):
    x, v = state
    return v, -omega**2 * x

def rk4(f, t, y, h):
    k1 = f(t, y)
    k2 = f(t + h / 2, [a + h / 2 * b for a, b in zip(y, k1)])
    k3 = f(t + h / 2, [a + h / 2 * b for a, b in zip(y, k2)])
    k4 = f(t + h, [a + h * b for a, b in zip(y, k3)])
    return [a + h / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(y, k1, k2, k3, k4)]

y, t, h = [1.0, 0.0], 0.0, 0.01
for _ in range(500):
    y = rk4(system, t, y, h)
    t += h
exact = math.cos(2 * t)
print(f"x({t:.2f}) = {y[0]:.8f}, exact {exact:.8f}")
assert abs(y[0] - exact) < 1e-6
energy = 0.5 * y[1] ** 2 + 2 * y[0] ** 2
assert abs(energy - 2) < 1e-6
print(system(0, (1, 0)))

try:
    from scipy.integrate import solve_ivp
except ImportError:
    pass
else:
    sol = solve_ivp(system, (0, 5), [1, 0], rtol=1e-9, atol=1e-9)
    assert abs(sol.y[0, -1] - exact) < 1e-6
