"""Asks Z3 for a counterexample, and searches one with plain integers."""

from z3 import BitVec, Solver, URem, sat

claimed = "divisible for every x"

x = BitVec("x", 32)
solver = Solver()
solver.add(URem(x * (x + 1) * (x + 2), 6) != 0)
has_counterexample = solver.check() == sat
first = next((n for n in range(2**32) if n * (n + 1) * (n + 2) % 2**32 % 6), None)
print(solver.model(), first)
assert has_counterexample == (first is not None)
found = "not divisible for some x" if has_counterexample else "divisible for every x"
assert found == claimed
