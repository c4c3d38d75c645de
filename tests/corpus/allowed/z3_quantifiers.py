# rule: none
# checks a few quantified statements and uninterpreted functions
from z3 import ForAll, Exists, Ints, Function, IntSort, BoolSort, Solver, Not, Implies, And, unsat, sat, DeclareSort, Const

x, y = Ints("x y")
f = Function("f", IntSort(), IntSort())

def is_valid(formula):
    s = Solver()
    s.set("timeout", 5000)
    s.add(Not(formula))
    return s.check() == unsat

assert is_valid(ForAll([x], Exists([y], y > x)))
assert not is_valid(Exists([y], ForAll([x], y > x)))
assert is_valid(Implies(x == y, f(x) == f(y)))

Person = DeclareSort("Person")
human = Function("human", Person, BoolSort())
mortal = Function("mortal", Person, BoolSort())
p = Const("p", Person)
socrates = Const("socrates", Person)

s = Solver()
s.add(ForAll([p], Implies(human(p), mortal(p))), human(socrates), Not(mortal(socrates)))
print("Socrates immortal?", s.check())
assert s.check() == unsat
