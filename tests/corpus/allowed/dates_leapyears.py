# rule: none
# checks leap years, weekdays and month lengths with calendar and datetime
import calendar
from datetime import date, timedelta

leap = [y for y in range(1896, 2025) if calendar.isleap(y)]
print(leap[:3], "...", leap[-3:])
assert 1900 not in leap and 2000 in leap and 2024 in leap

assert date(2024, 2, 29) + timedelta(days=365) == date(2025, 2, 28)
assert calendar.monthrange(2023, 2) == (2, 28)

# Friday the 13ths in 2026
fridays = [date(2026, m, 13) for m in range(1, 13) if date(2026, m, 13).weekday() == 4]
print([d.isoformat() for d in fridays])
assert [d.month for d in fridays] == [2, 3, 11]

# Zeller against the library
def zeller(y, m, d):
    if m < 3:
        m, y = m + 12, y - 1
    k, j = y % 100, y // 100
    h = (d + 13 * (m + 1) // 5 + k + k // 4 + j // 4 + 5 * j) % 7
    return (h + 5) % 7

day = date(1999, 12, 31)
for _ in range(500):
    assert zeller(day.year, day.month, day.day) == day.weekday()
    day += timedelta(days=17)
print(calendar.TextCalendar().formatmonth(2026, 2))
