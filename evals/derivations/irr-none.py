"""Asks Z3 for a rate, and computes the discriminant."""

from z3 import Real, Solver, sat

claimed = "a rate exists"

growth = Real("growth")
solver = Solver()
solver.add(growth > 0, -1_000 * growth * growth + 2_300 * growth - 1_323 == 0)
has_rate = solver.check() == sat
discriminant = 2_300**2 - 4 * 1_000 * 1_323
print(solver.check(), discriminant)
assert has_rate == (discriminant >= 0)
found = "a rate exists" if has_rate else "no rate exists"
assert found == claimed
