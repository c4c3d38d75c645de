"""Counts the days, and asks the DeadlineGuard of qwed_legal, whose holidays of the United States are the same here."""

from datetime import date, timedelta

from qwed_legal import DeadlineGuard

claimed = date(2026, 7, 15)

holidays = {date(2026, 6, 19), date(2026, 7, 3)}
day, left = date(2026, 6, 15), 20
while left:
    day += timedelta(days=1)
    left -= day.weekday() < 5 and day not in holidays
guard = DeadlineGuard(country="US").verify("2026-06-15", "20 business days", day.isoformat())
print(day, guard.computed_deadline)
assert guard.computed_deadline.date() == day
assert day == claimed
