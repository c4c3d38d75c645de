# rule: none
# checks determinant, inverse and eigenvalues of a matrix
import sympy as sp

M = sp.Matrix([[4, 1], [2, 3]])
print("det =", M.det())
assert M.det() == 10

eig = M.eigenvals()
print("eigenvalues:", eig)
assert eig == {5: 1, 2: 1}

for val, mult, vecs in M.eigenvects():
    for v in vecs:
        assert M * v == val * v
        print(f"lambda={val} (multiplicity {mult}) v={list(v)}")

P, D = M.diagonalize()
assert sp.simplify(P * D * P.inv() - M) == sp.zeros(2, 2)
assert M * M.inv() == sp.eye(2)

# Cayley-Hamilton
lam = sp.symbols("lambda")
p = M.charpoly(lam)
a, b, c = p.all_coeffs()
assert a * M**2 + b * M + c * sp.eye(2) == sp.zeros(2)
print("Cayley-Hamilton verified for", p.as_expr())
