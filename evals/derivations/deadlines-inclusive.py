"""Counts the days, and uses NumPy's business days."""

from datetime import date, timedelta

import numpy as np

claimed = date(2026, 3, 19)

days = [date(2026, 3, 5) + timedelta(days=n) for n in range(30)]
counted = [day for day in days if day.weekday() < 5][9]
by_numpy = np.busday_offset("2026-03-05", 9).astype(date)
print(counted, by_numpy)
assert counted == by_numpy
assert counted == claimed
