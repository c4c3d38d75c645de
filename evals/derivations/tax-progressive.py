"""Adds the tax of each bracket, and the steps of the rates."""

from decimal import Decimal

claimed = Decimal("22671.94")

bands = [
    (Decimal(11_600), Decimal("0.10")),
    (Decimal(47_150), Decimal("0.12")),
    (Decimal(100_525), Decimal("0.22")),
    (Decimal(191_950), Decimal("0.24")),
]


def by_bands(income):
    tax, lower = Decimal(0), Decimal(0)
    for upper, rate in bands:
        tax += (min(income, upper) - lower) * rate if income > lower else 0
        lower = upper
    return tax


def by_steps(income):
    """Adds, for each limit below the income, the step of the rate there."""
    limits = [Decimal(0), *(upper for upper, _ in bands)]
    rates = [Decimal(0), *(rate for _, rate in bands)]
    steps = zip(limits, zip(rates, rates[1:]))
    return sum((max(income - limit, Decimal(0)) * (after - before) for limit, (before, after) in steps), Decimal(0))


tax = by_bands(Decimal(123_456))
print(tax, by_steps(Decimal(123_456)))
assert tax == by_steps(Decimal(123_456))
assert tax == claimed
