"""Uses the offsets in the claim, and the time zone database."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

claimed = "Monday 2026-03-30 19:00"


def due(zone_before, zone_after):
    start = datetime(2026, 3, 27, 18, tzinfo=zone_before).astimezone(timezone.utc)
    return f"{(start + timedelta(hours=72)).astimezone(zone_after):%A %Y-%m-%d %H:%M}"


by_offsets = due(timezone(timedelta(hours=1)), timezone(timedelta(hours=2)))
by_database = due(ZoneInfo("Europe/Berlin"), ZoneInfo("Europe/Berlin"))
print(by_offsets, by_database)
assert by_offsets == by_database
assert by_offsets == claimed
