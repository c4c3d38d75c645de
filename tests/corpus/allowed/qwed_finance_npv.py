# rule: none
# checks NPV, IRR and a mortgage payment with qwed_finance
from qwed_finance import FinanceVerifier

fv = FinanceVerifier()

r = fv.verify_npv([-1000, 500, 500, 500], 0.1, "$243.43")
print("NPV", r.verified, r.computed_value)
assert r.verified

r = fv.verify_npv([-1000, 500, 500, 500], 0.1, "$343.43")
print("NPV wrong claim", r.verified, r.difference)
assert not r.verified

r = fv.verify_monthly_payment(200000, 0.06, 360, "$1199.10")
assert r.verified, r
r = fv.verify_irr([-100, 110], "10%")
assert r.verified, r
r = fv.verify_compound_interest(1000, 0.05, 10, "$1628.89")
assert r.verified
print(r.formula_used)

assert fv.add_money("$1.10", "$2.20") == "$3.30"
print("0.1 + 0.2 as money:", fv.add_money("$0.10", "$0.20"))
