# rule: none
# checks day counts and business days with qwed_finance
from datetime import date, timedelta
from qwed_finance import CalendarGuard, DayCountConvention

guard = CalendarGuard()
start, end = date(2024, 1, 1), date(2024, 7, 1)

res = guard.verify_day_count(start, end, 182)
print(res.proof)
assert res.verified
assert (end - start).days == 182

res = guard.verify_day_count(start, end, 180, DayCountConvention.THIRTY_360)
print(res.convention_used, res.computed_days)
assert res.verified

assert guard.verify_business_day(date(2024, 7, 4), False).verified
nxt = guard.get_next_business_day(date(2024, 7, 5))
print("next business day:", nxt)
assert nxt >= date(2024, 7, 5) and nxt.weekday() < 5
assert nxt - date(2024, 7, 5) <= timedelta(days=4)
