# rule: none
# checks a loan amortization table with decimal rounding
from decimal import Decimal, ROUND_HALF_UP, getcontext

getcontext().prec = 28
CENT = Decimal("0.01")

def cents(v: Decimal) -> Decimal:
    return v.quantize(CENT, rounding=ROUND_HALF_UP)

principal = Decimal("25000")
rate = Decimal("0.069") / 12
n = 48
payment = cents(principal * rate / (1 - (1 + rate) ** -n))
print("payment:", payment)

balance, interest_total = principal, Decimal(0)
for k in range(1, n + 1):
    interest = cents(balance * rate)
    part = payment - interest
    if k == n:
        part = balance
    balance -= part
    interest_total += interest
    if k in (1, 2, n):
        print(f"{k:>3} interest={interest:>8} principal={part:>9} balance={balance:>10}")

assert balance == 0
assert Decimal("3600") < interest_total < Decimal("3800")
print("total interest:", interest_total)
