"""Applies the allowance, and adds the marginal rates over the income."""

from decimal import Decimal

claimed = Decimal("38490")

income = Decimal(118_430)
allowance = Decimal(12_570) - (income - 100_000) / 2
taxable = income - allowance
tax = Decimal("0.2") * 37_700 + Decimal("0.4") * (taxable - 37_700)
# The marginal rate is 20 % from the allowance on, 40 % from 50,270 on, and 60 % from 100,000 on.
by_margins = sum(int(income - limit) * step for limit, step in [(12_570, 20), (50_270, 20), (100_000, 20)])
print(tax, by_margins)
assert tax == Decimal(by_margins) / 100
assert tax == claimed
