"""Converts with the module datetime, and by hand from a known Thursday."""

from datetime import date, datetime, timedelta, timezone

claimed = "Wednesday 2023-11-15 22:13:20"

seconds = 1_700_000_000
converted = f"{datetime.fromtimestamp(seconds, timezone.utc):%A %Y-%m-%d %H:%M:%S}"
days, rest = divmod(seconds, 86_400)
names = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]
clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
by_hand = f"{names[days % 7]} {date(1970, 1, 1) + timedelta(days=days)} {clock}"
print(converted, by_hand)
assert converted == by_hand
assert converted == claimed
