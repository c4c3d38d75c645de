"""Taxes the part below the limit, and asks the PayrollGuard of qwed_tax, which knows this limit."""

from decimal import Decimal

from qwed_tax import PayrollGuard

claimed = Decimal("350.20")

before, payment, limit = Decimal(170_450), Decimal(9_800), Decimal(176_100)
tax = Decimal("0.062") * (min(before + payment, limit) - min(before, limit))
guard = PayrollGuard().verify_fica_tax(before + payment, payment, tax)
print(tax, guard.message)
assert guard.verified
assert tax == claimed
