# rule: none
# explores cases with push and pop on an incremental solver
from z3 import Solver, Int, sat, unsat, And, Or

n = Int("n")
s = Solver()
s.add(n >= 0, n < 100, n % 7 == 3)

cases = {"even": n % 2 == 0, "multiple of 5": n % 5 == 0, "big": n > 97, "square-ish": n * n == 100}
results = {}
for name, cond in cases.items():
    s.push()
    s.add(cond)
    results[name] = s.check()
    if results[name] == sat:
        print(f"{name:14} e.g. n = {s.model()[n]}")
    else:
        print(f"{name:14} impossible")
    s.pop()

assert s.num_scopes() == 0
assert results["big"] == unsat
assert results["even"] == sat

found = []
while s.check() == sat:
    v = s.model()[n].as_long()
    found.append(v)
    s.add(n != v)
assert sorted(found) == [k for k in range(100) if k % 7 == 3]
print(len(found), "solutions enumerated")
