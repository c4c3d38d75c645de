"""Uses the offsets in the claim, and the time zone database."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

claimed = timedelta(days=21, hours=17)


def elapsed(first_zone, second_zone):
    end = datetime(2024, 3, 31, 12, tzinfo=second_zone).astimezone(timezone.utc)
    return end - datetime(2024, 3, 9, 12, tzinfo=first_zone).astimezone(timezone.utc)


by_offsets = elapsed(timezone(timedelta(hours=-5)), timezone(timedelta(hours=2)))
by_database = elapsed(ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin"))
print(by_offsets, by_database)
assert by_offsets == by_database
assert by_offsets == claimed
