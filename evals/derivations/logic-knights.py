"""Tries all sixteen cases, and asks Z3 for all solutions."""

from itertools import product

from z3 import And, Bools, If, Not, Or, Solver, Sum, is_true, sat

claimed = ["B"]


def is_possible(a, b, c, d):
    return (a == (not b and not c)) and (b == (not a)) and (c == (d or not b)) and (d == (a + b + c + d == 2))


def names(values):
    return "".join(name for name, value in zip("ABCD", values) if value)


tried = sorted(names(values) for values in product([False, True], repeat=4) if is_possible(*values))

a, b, c, d = people = Bools("a b c d")
solver = Solver()
solver.add(a == And(Not(b), Not(c)), b == Not(a), c == Or(d, Not(b)))
solver.add(d == (Sum([If(person, 1, 0) for person in people]) == 2))
solved = []
while solver.check() == sat:
    values = [is_true(solver.model().eval(person, model_completion=True)) for person in people]
    solved.append(names(values))
    solver.add(Or([person != value for person, value in zip(people, values)]))
print(tried, solved)
assert tried == sorted(solved)
assert tried == claimed
