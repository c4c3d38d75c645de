"""Counts the weeks of each year, and applies the rule about the first day of the year."""

from calendar import isleap
from datetime import date

claimed = 17

years = range(2000, 2100)
by_weeks = sum(date(year, 12, 28).isocalendar().week == 53 for year in years)
# A year has 53 weeks if it begins on a Thursday, or if it is a leap year and begins on a Wednesday.
begins = {year: date(year, 1, 1).isoweekday() for year in years}
by_rule = sum(begins[year] == 4 or (begins[year] == 3 and isleap(year)) for year in years)
print(by_weeks, by_rule)
assert by_weeks == by_rule
assert by_weeks == claimed
