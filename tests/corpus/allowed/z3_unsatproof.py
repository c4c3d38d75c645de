# rule: none
# proves integer and real claims by showing the negation is unsat
from z3 import Ints, Int, Real, Solver, Not, And, Implies, unsat, Reals

def prove(claim, name):
    s = Solver()
    s.add(Not(claim))
    res = s.check()
    print(f"{name}: {'PROVED' if res == unsat else 'COUNTEREXAMPLE'}")
    if res != unsat:
        print("   ", s.model())
    return res == unsat

x, y = Ints("x y")
a, b = Reals("a b")

assert prove(Implies(And(x > 2, y > 3), x + y > 5), "sum bound")
assert prove((2 * x) % 2 == 0, "even double")
assert prove(a * a + b * b >= 2 * a * b, "AM-GM")
assert not prove(Implies(x > y, x > y + 1), "off by one")
