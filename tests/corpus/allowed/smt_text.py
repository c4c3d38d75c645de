# rule: none
# passes formulas as texts
import z3

solver = z3.Solver()
names = [f"x{i}" for i in range(3)]
solver.from_string("\n".join(f"(declare-const {name} Int)(assert (> {name} 0))" for name in names))
other = z3.Solver()
other.from_string(solver.to_smt2())
print(solver.check(), other.check())
for limit in range(2):
    solver.add(z3.parse_smt2_string(f"(declare-const x0 Int)(assert (> x0 {limit}))"))
print(solver.check())
