# rule: none
# checks the anonymous gregorian algorithm for easter
from datetime import date, timedelta

def easter(year: int) -> date:
    a = year % 19
    b, c = divmod(year, 100)
    d, e = divmod(b, 4)
    f = (b + 8) // 25
    g = (b - f + 1) // 3
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    l = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 22 * l) // 451
    month, day = divmod(h + l - 7 * m + 114, 31)
    return date(year, month, day + 1)

known = {2000: (4, 23), 2008: (3, 23), 2011: (4, 24), 2024: (3, 31), 2025: (4, 20), 2038: (4, 25)}
for y, md in known.items():
    e = easter(y)
    print(y, e, "Good Friday", e - timedelta(days=2))
    assert (e.month, e.day) == md
assert all(easter(y).weekday() == 6 for y in range(1800, 2200))
