"""Builds the amounts up one after the other, and asks Z3 about each."""

from z3 import Ints, Solver, unsat

claimed = 26

payable = {0}
for amount in range(1, 200):
    if {amount - 7, amount - 11, amount - 16} & payable:
        payable.add(amount)
largest = max(set(range(200)) - payable)

x, y, z = Ints("x y z")
unpayable = []
for amount in range(1, 60):
    solver = Solver()
    solver.add(x >= 0, y >= 0, z >= 0, 7 * x + 11 * y + 16 * z == amount)
    if solver.check() == unsat:
        unpayable.append(amount)
print(largest, unpayable)
# After seven payable amounts in a row, every further amount is payable too.
assert set(range(largest + 1, largest + 8)) <= payable and unpayable[-1] == largest
assert largest == claimed
