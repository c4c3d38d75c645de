# rule: none
# checks polynomial arithmetic with an eval method
from itertools import zip_longest

class Poly:
    def __init__(self, *coeffs):
        self.c = list(coeffs)

    def eval(self, x):
        acc = 0
        for a in reversed(self.c):
            acc = acc * x + a
        return acc

    def __add__(self, other):
        return Poly(*(a + b for a, b in zip_longest(self.c, other.c, fillvalue=0)))

    def __mul__(self, other):
        out = [0] * (len(self.c) + len(other.c) - 1)
        for i, a in enumerate(self.c):
            for j, b in enumerate(other.c):
                out[i + j] += a * b
        return Poly(*out)

p, q = Poly(1, 2), Poly(-1, 0, 3)
for x in range(-5, 6):
    assert (p * q).eval(x) == p.eval(x) * q.eval(x)
    assert (p + q).eval(x) == p.eval(x) + q.eval(x)
print((p * q).c, (p * q).eval(2))
evals = [poly.eval for poly in (p, q)]
print([f(10) for f in evals])
