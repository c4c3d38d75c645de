"""Applies the formula, and asks the CalendarGuard of qwed_finance."""

from datetime import date

from qwed_finance import CalendarGuard, DayCountConvention

claimed = 389

start, end = date(2023, 1, 31), date(2024, 2, 29)
first_day = 30 if start.day == 31 else start.day
last_day = 30 if end.day == 31 and first_day == 30 else end.day
days = 360 * (end.year - start.year) + 30 * (end.month - start.month) + (last_day - first_day)
guard = CalendarGuard().verify_day_count(start, end, days, DayCountConvention.THIRTY_360)
print(days, guard.computed_days)
assert guard.computed_days == days
assert days == claimed
