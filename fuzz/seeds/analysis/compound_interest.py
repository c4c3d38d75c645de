"""Checks a claim about compound interest, with exact decimal arithmetic.

The claim: 10,000 at 7.5 % a year, compounded quarterly, is worth 14,499.48 after 5 years.
The value is computed in two independent ways; both must agree with the claim.

    QWED_MCP_TRUSTED_CODE_EXECUTION=true qwed-mcp run examples/compound_interest.py
"""

from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")

principal = Decimal("10000")
yearly_rate = Decimal("0.075")
periods_a_year = 4
years = 5
claimed = Decimal("14499.48")

periods = periods_a_year * years
period_rate = yearly_rate / periods_a_year

# First way: the closed formula.
by_formula = principal * (1 + period_rate) ** periods

# Second way: the account, period by period.
by_ledger = principal
for _ in range(periods):
    by_ledger += by_ledger * period_rate

print(f"by the formula: {by_formula.quantize(CENT, ROUND_HALF_UP)}")
print(f"by the ledger:  {by_ledger.quantize(CENT, ROUND_HALF_UP)}")

assert abs(by_formula - by_ledger) < Decimal("1e-15"), "the two ways disagree"
result = by_formula.quantize(CENT, ROUND_HALF_UP)
assert result == claimed, f"expected {claimed}, got {result}"

# A neighbouring claim that is often made must fail: interest that is not compounded.
simple = principal * (1 + yearly_rate * years)
assert simple != claimed

print(f"VERIFIED: {claimed}")
