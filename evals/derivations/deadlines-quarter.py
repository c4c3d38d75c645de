"""Adds the months by hand, and with dateutil."""

from datetime import date

from dateutil.relativedelta import relativedelta

claimed = date(2026, 9, 30)

received = date(2026, 4, 1)
ends = [date(2026, 6, 30), date(2026, 9, 30), date(2026, 12, 31)]
by_hand = next(end for end in ends if end >= date(received.year, received.month + 3, received.day))
by_dateutil = next(end for end in ends if end - relativedelta(months=3) >= received)
print(by_hand, by_dateutil)
assert by_hand == by_dateutil
assert by_hand == claimed
