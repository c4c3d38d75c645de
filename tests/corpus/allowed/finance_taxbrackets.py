# rule: none
# checks income tax claims against a bracket table
from dataclasses import dataclass
from decimal import Decimal as D

@dataclass(frozen=True)
class Bracket:
    upto: D
    rate: D

TABLE = [
    Bracket(D(11600), D("0.10")),
    Bracket(D(47150), D("0.12")),
    Bracket(D(100525), D("0.22")),
    Bracket(D("Infinity"), D("0.24")),
]

def tax(income: D) -> D:
    due, lower = D(0), D(0)
    for b in TABLE:
        if income <= lower:
            break
        due += (min(income, b.upto) - lower) * b.rate
        lower = b.upto
    return due.quantize(D("0.01"))

claims = {11600: "1160.00", 50000: "6053.00", 100525: "17168.50", 0: "0.00"}
for income, claimed in claims.items():
    got = tax(D(income))
    status = "OK" if got == D(claimed) else "WRONG"
    print(f"{income:>7}: {got:>10} claimed {claimed:>10} {status}")
    assert status == "OK"

previous = D(-1)
for income in range(0, 200000, 2500):
    assert tax(D(income)) >= previous
    previous = tax(D(income))
