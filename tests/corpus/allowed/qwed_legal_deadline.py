# rule: none
# checks a contract deadline and a liability cap with qwed_legal
from datetime import date, timedelta
from qwed_legal import DeadlineGuard, LiabilityGuard, LegalGuard

res = DeadlineGuard().verify("2026-01-15", "30 days", "2026-02-14")
print(res.message)
assert res.verified
assert date(2026, 1, 15) + timedelta(days=30) == date(2026, 2, 14)

res = DeadlineGuard().verify("2026-01-15", "30 days", "2026-02-15")
print(res.difference_days, "day(s) off")
assert not res.verified

cap = LiabilityGuard().verify_cap(100000, 15, 15000)
assert cap.verified and cap.computed_cap == 15000
assert not LiabilityGuard().verify_cap(100000, 15, 15001).verified

guard = LegalGuard()
for step in guard.verify_deadline("2026-01-15", "30 days", "2026-02-14").verification_trace:
    print("-", step.step, step.output)
