# rule: none
# finds which policy rules contradict each other with unsat cores
from z3 import Solver, Bool, Int, unsat, Implies, Not, And

age = Int("age")
member = Bool("member")
discount = Int("discount")

rules = {
    "r1_member_min": Implies(member, discount >= 10),
    "r2_minor_none": Implies(age < 18, discount == 0),
    "r3_case_member": member,
    "r4_case_minor": age == 16,
    "r5_cap": discount <= 50,
}
s = Solver()
s.set(unsat_core=True)
for name, rule in rules.items():
    s.assert_and_track(rule, name)

assert s.check() == unsat
core = sorted(str(c) for c in s.unsat_core())
print("conflict between:", ", ".join(core))
assert "r5_cap" not in core
assert set(core) == {"r1_member_min", "r2_minor_none", "r3_case_member", "r4_case_minor"}
