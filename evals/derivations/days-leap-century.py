"""Subtracts the dates, and counts the days of each year with the rule for leap years."""

from datetime import date

claimed = 2_921

by_dates = (date(1904, 2, 29) - date(1896, 2, 29)).days


def has_leap_day(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


# A year from 1 March has a leap day if its second calendar year has one. The last day, 29 February 1904, is the same.
from_march = sum(366 if has_leap_day(year + 1) else 365 for year in range(1896, 1904))
print(by_dates, from_march)
assert by_dates == from_march
assert by_dates == claimed
