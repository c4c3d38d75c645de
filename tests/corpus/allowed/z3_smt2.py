# rule: none
# exports a problem as SMT-LIB text and reads it back
from z3 import Solver, Ints, parse_smt2_string, And, sat, unsat

x, y = Ints("x y")
s = Solver()
s.add(x + y == 10, x - y == 4)
text = s.to_smt2()
print(text)
assert "(check-sat)" in text and "declare-fun x" in text

again = Solver()
again.add(parse_smt2_string(text))
assert again.check() == sat
m = again.model()
print({d.name(): m[d] for d in m.decls()})

bad = Solver()
bad.from_string("(declare-const a Int) (assert (> a 3)) (assert (< a 4))")
assert bad.check() == unsat
print(s.sexpr().count("assert"), "assertions")
