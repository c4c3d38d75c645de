# rule: none
# finds an internal rate of return by bisection and verifies it
from __future__ import annotations

def npv(rate: float, flows: list[float]) -> float:
    return sum(c / (1 + rate) ** t for t, c in enumerate(flows))

def irr(flows: list[float], lo: float = -0.9, hi: float = 10.0) -> float:
    f_lo, f_hi = npv(lo, flows), npv(hi, flows)
    if f_lo * f_hi > 0:
        raise ValueError("no sign change")
    while hi - lo > 1e-12:
        mid = (lo + hi) / 2
        if npv(mid, flows) * f_lo > 0:
            lo = mid
        else:
            hi = mid
    return (lo + hi) / 2

claim = 0.2338
flows = [-1000, 500, 500, 500]
r = irr(flows)
print(f"IRR = {r:.6%}")
assert abs(npv(r, flows)) < 1e-6
assert round(r, 4) == round(claim, 4), (r, claim)

try:
    irr([100, 100])
except ValueError as err:
    print("as expected:", err)
