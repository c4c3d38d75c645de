"""Checks a claim about a deadline: 30 business days after 15 January 2026.

The claim "14 February 2026" counts calendar days. Business days skip weekends and holidays, and
14 February 2026 is a Saturday, so it cannot be the end of a term counted in business days.

    QWED_MCP_TRUSTED_CODE_EXECUTION=true qwed-mcp run examples/business_days.py
"""

from datetime import date, timedelta

# Federal holidays of the United States that fall into the term.
HOLIDAYS = {
    date(2026, 1, 19): "Martin Luther King Jr. Day",
    date(2026, 2, 16): "Washington's Birthday",
}


def is_business_day(day):
    return day.weekday() < 5 and day not in HOLIDAYS


def add_business_days(start, count):
    day = start
    while count > 0:
        day += timedelta(days=1)
        if is_business_day(day):
            count -= 1
    return day


signed = date(2026, 1, 15)
claimed = date(2026, 2, 14)
deadline = add_business_days(signed, 30)

print(f"claimed:  {claimed:%A %d %B %Y}, {(claimed - signed).days} calendar days after signing")
print(f"computed: {deadline:%A %d %B %Y}, 30 business days after signing")

# Counted the other way round: the business days in the term are 30, the last of them the deadline.
term = [signed + timedelta(days=n) for n in range(1, (deadline - signed).days + 1)]
assert sum(map(is_business_day, term)) == 30
assert is_business_day(deadline)
assert not is_business_day(claimed), "a deadline in business days is a business day"
assert deadline == date(2026, 3, 2), f"got {deadline}"

print(f"REFUTED: the deadline is {deadline}, not {claimed}")
