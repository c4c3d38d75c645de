"""Moves the last day, with Easter from dateutil and from the algorithm of Meeus, Jones and Butcher."""

from datetime import date, timedelta

from dateutil.easter import easter

claimed = date(2026, 4, 6)


def computed_easter(year):
    a, (b, c) = year % 19, divmod(year, 100)
    h = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    k = (32 + 2 * (b % 4) + 2 * (c // 4) - h - c % 4) % 7
    month, day = divmod(h + k - 7 * ((a + 11 * h + 22 * k) // 451) + 114, 31)
    return date(year, month, day + 1)


def last_day(sunday):
    day = date(2026, 3, 20) + timedelta(days=14)
    while day.weekday() > 4 or day in (sunday - timedelta(days=2), sunday + timedelta(days=1)):
        day += timedelta(days=1)
    return day


by_dateutil, by_algorithm = last_day(easter(2026)), last_day(computed_easter(2026))
print(by_dateutil, by_algorithm)
assert by_dateutil == by_algorithm
assert by_dateutil == claimed
