# rule: none
# checks opening hours of a shop
from datetime import time, datetime

class Shop:
    HOURS = {0: None, **{d: (time(9), time(18)) for d in range(1, 6)}, 6: (time(10), time(14))}

    def __init__(self, name):
        self.name = name

    def open(self, when: datetime) -> bool:
        hours = self.HOURS[when.isoweekday() % 7]
        return hours is not None and hours[0] <= when.time() < hours[1]

def open_shops(shops, when, open=lambda s, w: s.open(w)):
    return [s.name for s in shops if open(s, when)]

shop = Shop("bakery")
assert shop.open(datetime(2024, 6, 3, 9, 0))         # monday
assert not shop.open(datetime(2024, 6, 3, 18, 0))
assert shop.open(datetime(2024, 6, 8, 13, 59))       # saturday
assert not shop.open(datetime(2024, 6, 9, 12, 0))    # sunday
print(open_shops([shop, Shop("bar")], datetime(2024, 6, 4, 12)))
open_hours = sum(
    (c.hour - o.hour) for h in Shop.HOURS.values() if h for o, c in [h]
)
assert open_hours == 5 * 9 + 4
