"""Adds the parts of the two years, and adds the days one by one."""

from calendar import isleap
from datetime import date, timedelta
from fractions import Fraction

claimed = "0.497268"

start, end, new_year = date(2023, 11, 15), date(2024, 5, 15), date(2024, 1, 1)
by_years = Fraction((new_year - start).days, 365) + Fraction((end - new_year).days, 366)
days = [start + timedelta(days=n) for n in range((end - start).days)]
by_days = sum(Fraction(1, 366 if isleap(day.year) else 365) for day in days)
print(by_years, float(by_years))
assert by_years == by_days
assert f"{float(by_years):.6f}" == claimed
