# rule: none
# checks boolean equivalences and satisfiability
from sympy import symbols, And, Or, Not, Implies, Equivalent, simplify_logic, to_cnf, satisfiable, Xor
from itertools import product

p, q, r = symbols("p q r")

laws = [
    Equivalent(Not(And(p, q)), Or(Not(p), Not(q))),
    Equivalent(Implies(p, q), Or(Not(p), q)),
    Equivalent(Xor(p, q), And(Or(p, q), Not(And(p, q)))),
    Implies(And(Implies(p, q), Implies(q, r)), Implies(p, r)),
]
for law in laws:
    taut = satisfiable(Not(law)) is False
    brute = all(bool(law.subs(dict(zip((p, q, r), v)))) for v in product([True, False], repeat=3))
    print(taut, law)
    assert taut and brute

assert simplify_logic(Or(And(p, q), And(p, Not(q)))) == p
print(to_cnf(Or(And(p, q), r)))
assert satisfiable(And(p, Not(p))) is False
model = satisfiable(And(p, Not(q)))
assert model[p] and not model[q]
