# rule: none
# checks constraints over strings with the sequence solver
from z3 import String, StringVal, Length, PrefixOf, SuffixOf, Contains, Solver, sat, unsat, Concat, InRe, Re, Plus, Range

s1 = String("s1")
sol = Solver()
sol.add(PrefixOf("ab", s1), SuffixOf("yz", s1), Length(s1) == 6, Contains(s1, "mm"))
assert sol.check() == sat
w = sol.model()[s1].as_string()
print("witness:", w)
assert w == "abmmyz"

digits = Plus(Range("0", "9"))
num = String("num")
sol = Solver()
sol.add(InRe(num, digits), Length(num) == 3, PrefixOf("7", num))
assert sol.check() == sat
assert sol.model()[num].as_string().isdigit()

sol = Solver()
sol.add(InRe(num, digits), Contains(num, "x"))
assert sol.check() == unsat
print("ok")
