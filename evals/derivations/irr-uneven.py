"""Bisects the present value, and finds the roots of the polynomial with NumPy."""

from decimal import Decimal

import numpy as np

claimed = "13.08"

flows = [(year, Decimal(amount)) for year, amount in enumerate([-120_000, 39_000, 30_000, 21_000, 37_000, 46_000])]


def present_value(rate):
    return sum(amount / (1 + rate) ** time for time, amount in flows)


def bisected(low, high):
    """Returns a zero of the present value, which falls from `low` to `high`."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if present_value(middle) > 0 else (low, middle)
    return low


roots = np.roots([float(amount) for _, amount in flows])
[root] = [root.real for root in roots if abs(root.imag) < 1e-9 and root.real > 0]
rate = bisected(Decimal(0), Decimal(1))
print(rate, root - 1)
assert abs(root - 1 - float(rate)) < 1e-9
assert f"{100 * rate:.2f}" == claimed
