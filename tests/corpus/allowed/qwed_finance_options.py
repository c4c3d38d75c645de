# rule: none
# checks black-scholes, put-call parity and risk ratios with qwed_finance
import math
from statistics import NormalDist
from qwed_finance import DerivativesGuard, OptionType, RiskGuard, BondGuard, FXGuard

d = DerivativesGuard()
res = d.verify_black_scholes(100, 100, 1, 0.05, 0.2, OptionType.CALL, "10.45")
print(res.computed_price, res.greeks)
assert res.verified

N = NormalDist().cdf
d1 = (0.05 + 0.5 * 0.04) / 0.2
call = 100 * N(d1) - 100 * math.exp(-0.05) * N(d1 - 0.2)
put = call - 100 + 100 * math.exp(-0.05)
assert abs(call - 10.4506) < 1e-3
assert d.verify_put_call_parity(round(call, 2), round(put, 2), 100, 100, 1, 0.05).verified

assert RiskGuard().verify_sharpe_ratio(0.12, 0.02, 0.2, "0.5").verified
assert RiskGuard().verify_max_drawdown([100, 120, 90, 110], "25%").verified
assert BondGuard().verify_ytm(1000, 0.05, 1000, 10, "5%").verified
assert FXGuard().verify_cross_rate(1.1, 150, "165").verified
print("all guards agree")
