"""Keeps the account in Decimal, and in whole cents."""

from decimal import ROUND_HALF_UP, Decimal

claimed = Decimal("237104.40")

cent = Decimal("0.01")
rate = Decimal("0.004375")
payment = (240_000 * rate / (1 - (1 + rate) ** -360)).quantize(cent, ROUND_HALF_UP)
debt, total = Decimal(240_000), Decimal(0)
for month in range(360):
    interest = (debt * rate).quantize(cent, ROUND_HALF_UP)
    total += interest
    debt += interest - min(payment, debt + interest)

cents, paid, instalment = 24_000_000, 0, int(payment * 100)
for month in range(1, 361):
    cents += (cents * 4_375 + 500_000) // 1_000_000
    last = cents if month == 360 else min(instalment, cents)
    cents, paid = cents - last, paid + last
print(payment, total, paid)
assert total == Decimal(paid - 24_000_000) / 100
assert total == claimed
