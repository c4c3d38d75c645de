# rule: none
# parses dates in several formats and checks the differences
from datetime import datetime, date
import time

samples = {
    "2024-02-29": "%Y-%m-%d",
    "29/02/2024": "%d/%m/%Y",
    "Feb 29, 2024": "%b %d, %Y",
    "20240229T235959": "%Y%m%dT%H%M%S",
}
parsed = {text: datetime.strptime(text, f).date() for text, f in samples.items()}
for text, value in parsed.items():
    print(f"{text:<18} -> {value:%A %d %B %Y}")
assert set(parsed.values()) == {date(2024, 2, 29)}

for bad in ("2023-02-29", "31/04/2024"):
    fmt = "%Y-%m-%d" if "-" in bad else "%d/%m/%Y"
    try:
        datetime.strptime(bad, fmt)
    except ValueError as e:
        print("rejected", bad, "-", e)
    else:
        raise SystemExit(f"{bad} should be invalid")

age = lambda born, on: on.year - born.year - ((on.month, on.day) < (born.month, born.day))
assert age(date(2000, 2, 29), date(2018, 2, 28)) == 17
assert age(date(2000, 2, 29), date(2018, 3, 1)) == 18
assert time.gmtime(86400).tm_mday == 2
