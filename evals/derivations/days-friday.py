"""Counts with the module datetime, and with Zeller's congruence."""

from datetime import date

claimed = 171


def zeller(year, month, day):
    """Returns the day of the week, where 0 is Saturday and 6 is Friday."""
    if month < 3:
        year, month = year - 1, month + 12
    return (day + 13 * (month + 1) // 5 + year + year // 4 - year // 100 + year // 400) % 7


months = [(year, month) for year in range(2000, 2100) for month in range(1, 13)]
by_dates = sum(date(year, month, 13).weekday() == 4 for year, month in months)
by_congruence = sum(zeller(year, month, 13) == 6 for year, month in months)
print(by_dates, by_congruence)
assert by_dates == by_congruence
assert by_dates == claimed
