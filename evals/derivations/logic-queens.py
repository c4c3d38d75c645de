"""Tries permutations, and asks Z3 for all solutions."""

from itertools import permutations

from z3 import Distinct, Ints, Or, Solver, sat

claimed = 4


def diagonals(rows, direction):
    return [row + direction * column for column, row in enumerate(rows)]


placements = (rows for rows in permutations(range(8)) if rows[0] == 0)
by_trying = sum(len(set(diagonals(rows, 1))) == len(set(diagonals(rows, -1))) == 8 for rows in placements)

queens = Ints("a b c d e f g h")
solver = Solver()
solver.add(queens[0] == 0, *(queen >= 0 for queen in queens), *(queen < 8 for queen in queens))
solver.add(Distinct(queens), Distinct(diagonals(queens, 1)), Distinct(diagonals(queens, -1)))
by_z3 = 0
while solver.check() == sat:
    by_z3 += 1
    model = solver.model()
    solver.add(Or([queen != model[queen] for queen in queens]))
print(by_trying, by_z3)
assert by_trying == by_z3
assert by_trying == claimed
