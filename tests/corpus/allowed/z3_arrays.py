# rule: none
# checks read-over-write reasoning with arrays
from z3 import Array, IntSort, Ints, Store, Select, Solver, Not, unsat, sat, If, Implies

A = Array("A", IntSort(), IntSort())
i, j, v, w = Ints("i j v w")

def valid(f):
    s = Solver()
    s.add(Not(f))
    return s.check() == unsat

assert valid(Select(Store(A, i, v), i) == v)
assert valid(Implies(i != j, Store(A, i, v)[j] == A[j]))
assert valid(Implies(i != j, Store(Store(A, i, v), j, w) == Store(Store(A, j, w), i, v)))
assert not valid(Store(Store(A, i, v), j, w) == Store(Store(A, j, w), i, v))

# swap keeps the sum of the two cells
B = Store(Store(A, i, A[j]), j, A[i])
assert valid(B[i] + B[j] == A[i] + A[j])

s = Solver()
s.add(A[0] == 1, A[1] == A[0] * 3, A[2] > A[1])
assert s.check() == sat
m = s.model()
print([m.eval(A[k], model_completion=True) for k in range(3)])
