# rule: none
# checks that a double-entry ledger balances
from collections import defaultdict
from decimal import Decimal

entries = [
    ("2024-01-02", "cash", "equity", "5000.00"),
    ("2024-01-05", "inventory", "cash", "1250.75"),
    ("2024-01-09", "cash", "sales", "980.10"),
    ("2024-01-09", "cogs", "inventory", "400.05"),
    ("2024-01-31", "rent", "cash", "700.00"),
]

balance: defaultdict[str, Decimal] = defaultdict(Decimal)
for day, debit, credit, amount in entries:
    value = Decimal(amount)
    balance[debit] += value
    balance[credit] -= value

for account in sorted(balance):
    print(f"{account:<10} {balance[account]:>10}")

assert sum(balance.values()) == 0
assert balance["cash"] == Decimal("4029.35")
profit = -(balance["sales"] + balance["cogs"] + balance["rent"])
print("profit:", profit)
assert profit == Decimal("-119.95")
