# rule: none
# checks a traffic light state machine with an enumeration sort
from z3 import EnumSort, Const, Function, Solver, And, Or, Not, If, unsat, sat, simplify

Light, (red, green, yellow) = EnumSort("Light", ["red", "green", "yellow"])

def step(s):
    return If(s == red, green, If(s == green, yellow, red))

s0 = Const("s0", Light)
solver = Solver()
solver.add(step(step(step(s0))) != s0)
print("three steps return to start:", solver.check() == unsat)
assert solver.check() == unsat

solver = Solver()
solver.add(step(s0) == s0)
assert solver.check() == unsat, "no fixed point"

solver = Solver()
solver.add(step(s0) == red)
assert solver.check() == sat
print("predecessor of red:", solver.model()[s0])
assert str(solver.model()[s0]) == "yellow"
assert simplify(step(red)).eq(green)
