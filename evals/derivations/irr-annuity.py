"""Bisects the present value, and finds the roots of the polynomial with SymPy."""

from decimal import Decimal

from sympy import Poly, symbols

claimed = "7.93"

flows = [(0, Decimal(-10_000)), *((year, Decimal(2_500)) for year in range(1, 6))]


def present_value(rate):
    return sum(amount / (1 + rate) ** time for time, amount in flows)


def bisected(low, high):
    """Returns a zero of the present value, which falls from `low` to `high`."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if present_value(middle) > 0 else (low, middle)
    return low


growth = symbols("growth")
polynomial = Poly([int(amount) for _, amount in flows], growth)
[root] = [root for root in polynomial.nroots(n=20) if root.is_real and root > 0]
rate = bisected(Decimal(0), Decimal(1))
print(rate, root - 1)
assert abs(float(root) - 1 - float(rate)) < 1e-12
assert f"{100 * rate:.2f}" == claimed
