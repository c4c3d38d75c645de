"""Asks Z3 for a colouring, and tries all colourings of the vertices a."""

from itertools import product

from z3 import And, Ints, Solver, sat

claimed = "colourable"

colours = Ints("a0 a1 a2 a3 a4 b0 b1 b2 b3 b4 c")
edges = [(i, (i + 1) % 5) for i in range(5)]
edges += [(5 + i, (i + step) % 5) for i in range(5) for step in (-1, 1)]
edges += [(10, 5 + i) for i in range(5)]
solver = Solver()
solver.add([And(colour >= 0, colour < 3) for colour in colours])
solver.add([colours[v] != colours[w] for v, w in edges])
by_z3 = solver.check() == sat


def extends(outer):
    """Returns whether a colouring of the vertices a extends to the others, where c has colour 2."""
    if any(outer[i] == outer[(i + 1) % 5] for i in range(5)):
        return False
    return all({0, 1} - {outer[i - 1], outer[(i + 1) % 5]} for i in range(5))


by_trying = any(extends(outer) for outer in product(range(3), repeat=5))
print(len(edges), solver.check(), by_trying)
assert by_z3 == by_trying
found = "colourable" if by_z3 else "not colourable"
assert found == claimed
