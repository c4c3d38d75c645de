# rule: none
# compares vectorised numpy results with plain loops
import importlib.util

if importlib.util.find_spec("numpy") is None:
    raise SystemExit(0)

import numpy as np

a = np.arange(1, 1001)
assert a.sum() == 500500
assert (a[a % 3 == 0].sum() + a[a % 5 == 0].sum() - a[a % 15 == 0].sum()) == sum(
    k for k in range(1, 1001) if k % 3 == 0 or k % 5 == 0
)

m = a[:12].reshape(3, 4)
print(m, m.sum(axis=0), m.mean(axis=1))
assert m.T.shape == (4, 3)
assert (np.einsum("ij,kj->ik", m, m) == m @ m.T).all()

collatz = np.vectorize(lambda n: sum(1 for _ in iter_steps(n)))

def iter_steps(n):
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        yield n

steps = collatz(np.arange(1, 30))
print("longest below 30:", int(steps.argmax()) + 1, "with", steps.max(), "steps")
assert steps[26] == 111
