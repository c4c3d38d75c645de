# rule: none
# checks linear algebra identities with numpy if it is installed
import sys

try:
    import numpy as np
except ImportError:
    print("numpy missing, nothing to check")
    sys.exit(0)

rng = np.random.default_rng(0)
A = rng.normal(size=(5, 5))
b = rng.normal(size=5)

x = np.linalg.solve(A, b)
assert np.allclose(A @ x, b)

U, s, Vt = np.linalg.svd(A)
assert np.allclose(U @ np.diag(s) @ Vt, A)
assert np.isclose(abs(np.linalg.det(A)), s.prod())

Q, R = np.linalg.qr(A)
assert np.allclose(Q.T @ Q, np.eye(5))

w = np.linalg.eigvals(A)
assert np.isclose(w.sum().real, np.trace(A))
t = np.linspace(0, 1, 101)
coef = np.polyfit(t, 3 * t**2 - t + 0.5, 2)
print("recovered coefficients:", coef.round(6))
assert np.allclose(coef, [3, -1, 0.5])
