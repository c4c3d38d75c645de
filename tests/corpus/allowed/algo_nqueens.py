# rule: none
# counts n-queens solutions and compares with the known sequence
import sys

sys.setrecursionlimit(5000)

def queens(n):
    def place(row, cols, diag1, diag2):
        if row == n:
            yield tuple(cols)
            return
        for c in range(n):
            if c in cols or row + c in diag1 or row - c in diag2:
                continue
            yield from place(row + 1, cols + [c], diag1 | {row + c}, diag2 | {row - c})
    yield from place(0, [], frozenset(), frozenset())

known = [1, 1, 0, 0, 2, 10, 4, 40, 92]
counts = [sum(1 for _ in queens(n)) for n in range(9)]
print(counts)
assert counts == known

first = next(queens(8))
for r, c in enumerate(first):
    sys.stdout.write("." * c + "Q" + "." * (7 - c) + "\n")
sys.stdout.flush()
