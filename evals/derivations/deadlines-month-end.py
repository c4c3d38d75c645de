"""Finds the day with the calendar, and with dateutil."""

from calendar import monthrange
from datetime import date

from dateutil.relativedelta import relativedelta

claimed = date(2023, 3, 28)

first = date(2023, 1, 31)
by_calendar = date(2023, 3, min(first.day, monthrange(2023, 3)[1]))
by_dateutil = first + relativedelta(months=2)
print(by_calendar, by_dateutil)
assert by_calendar == by_dateutil
assert by_calendar == claimed
