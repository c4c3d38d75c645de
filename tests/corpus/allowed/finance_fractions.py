# rule: none
# checks exact percentages and a split of a bill with fractions
from fractions import Fraction as F
from math import lcm

shares = {"ann": F(1, 3), "bob": F(1, 4), "cid": F(5, 12)}
assert sum(shares.values()) == 1

bill = F("127.35")
due = {k: bill * v for k, v in shares.items()}
for k, v in due.items():
    print(f"{k}: {v} = {float(v):.4f}")
assert sum(due.values()) == bill

# largest remainder rounding to cents
cents = {k: int(v * 100) for k, v in due.items()}
rest = int(bill * 100) - sum(cents.values())
for k in sorted(due, key=lambda k: due[k] * 100 - cents[k], reverse=True)[:rest]:
    cents[k] += 1
assert sum(cents.values()) == 12735
print(cents)
assert lcm(*(f.denominator for f in shares.values())) == 12
assert F(0.1) != F(1, 10) and F("0.1") == F(1, 10)
assert F(3.14159).limit_denominator(120) == F(355, 113)
