"""Bisects the present value, and searches its zero with SymPy."""

from datetime import date
from decimal import Decimal

from sympy import Rational, nsolve, symbols

claimed = "8.23"

start = date(2021, 1, 31)
payments = {start: -10_000, date(2021, 7, 15): 2_750, date(2022, 2, 28): 4_250, date(2023, 9, 30): 4_250}
flows = [(Decimal((day - start).days) / 365, Decimal(amount)) for day, amount in payments.items()]


def present_value(rate):
    return sum(amount / (1 + rate) ** time for time, amount in flows)


def bisected(low, high):
    """Returns a zero of the present value, which falls from `low` to `high`."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if present_value(middle) > 0 else (low, middle)
    return low


unknown = symbols("unknown")
powers = [amount * (1 + unknown) ** -Rational((day - start).days, 365) for day, amount in payments.items()]
solved = nsolve(sum(powers), unknown, 0.1)
rate = bisected(Decimal(0), Decimal(1))
print(rate, solved)
assert abs(float(solved) - float(rate)) < 1e-12
assert f"{100 * rate:.2f}" == claimed
