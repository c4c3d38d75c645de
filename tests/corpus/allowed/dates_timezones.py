# rule: none
# checks conversions between time zones and daylight saving shifts
from datetime import datetime, timedelta, timezone

try:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError
except ImportError:
    ZoneInfo = None

utc = datetime(2024, 3, 10, 12, 0, tzinfo=timezone.utc)
ist = timezone(timedelta(hours=5, minutes=30), "IST")
print(utc.astimezone(ist).isoformat())
assert utc.astimezone(ist).hour == 17
assert utc.astimezone(ist) == utc

if ZoneInfo is not None:
    try:
        ny = ZoneInfo("America/New_York")
    except ZoneInfoNotFoundError:
        print("no tz database here, skipping")
    else:
        before = datetime(2024, 3, 9, 12, tzinfo=ny)
        after = datetime(2024, 3, 10, 12, tzinfo=ny)
        print(before.utcoffset(), after.utcoffset(), after.tzname())
        assert (after - before) == timedelta(days=1)
        real = after.astimezone(timezone.utc) - before.astimezone(timezone.utc)
        assert real == timedelta(hours=23)

stamp = datetime.fromtimestamp(0, tz=timezone.utc)
assert stamp.isoformat() == "1970-01-01T00:00:00+00:00"
