# rule: none
# solves a 4x4 sudoku and checks that the solution is unique
from z3 import Int, Solver, Distinct, Or, And, sat, unsat

puzzle = [
    [1, 0, 3, 0],
    [0, 4, 0, 2],
    [2, 0, 0, 0],
    [0, 0, 2, 0],
]
X = [[Int(f"x{r}{c}") for c in range(4)] for r in range(4)]
s = Solver()
for r in range(4):
    for c in range(4):
        s.add(And(X[r][c] >= 1, X[r][c] <= 4))
        if puzzle[r][c]:
            s.add(X[r][c] == puzzle[r][c])
    s.add(Distinct(X[r]))
    s.add(Distinct([X[k][r] for k in range(4)]))
for br in (0, 2):
    for bc in (0, 2):
        s.add(Distinct([X[br + i][bc + j] for i in range(2) for j in range(2)]))

assert s.check() == sat
m = s.model()
sol = [[m.evaluate(X[r][c]).as_long() for c in range(4)] for r in range(4)]
for row in sol:
    print(*row)
s.add(Or([X[r][c] != sol[r][c] for r in range(4) for c in range(4)]))
print("unique" if s.check() == unsat else "several solutions")
