# rule: none
# counts business days and checks a closed form
from datetime import date, timedelta
from itertools import islice

HOLIDAYS = {date(2025, 1, 1), date(2025, 5, 26), date(2025, 7, 4), date(2025, 12, 25)}

def workdays(start):
    day = start
    while True:
        if day.weekday() < 5 and day not in HOLIDAYS:
            yield day
        day += timedelta(days=1)

def add_workdays(start, n):
    return next(islice(workdays(start + timedelta(days=1)), n - 1, None))

assert add_workdays(date(2025, 7, 3), 1) == date(2025, 7, 7)
assert add_workdays(date(2025, 12, 24), 3) == date(2025, 12, 30)

count = sum(1 for d in (date(2025, 1, 1) + timedelta(days=i) for i in range(365))
            if d.weekday() < 5 and d not in HOLIDAYS)
print("business days in 2025:", count)
assert count == 261 - 4

iso_year, iso_week, iso_day = date(2024, 12, 30).isocalendar()
assert (iso_year, iso_week, iso_day) == (2025, 1, 1)
