# rule: none
# checks bank account opening and closing
from decimal import Decimal

class Account:
    _next = 1000

    def __init__(self, owner):
        self.owner, self.balance, self.active = owner, Decimal(0), False

    def open(self, initial="0.00"):
        if self.active:
            raise ValueError("already open")
        Account._next += 1
        self.number, self.active = Account._next, True
        self.balance = Decimal(initial)
        return self

    def withdraw(self, amount):
        amount = Decimal(amount)
        if amount > self.balance:
            raise ValueError("insufficient funds")
        self.balance -= amount

    def close(self):
        paid, self.balance, self.active = self.balance, Decimal(0), False
        return paid

account = Account("ann")
account.open("150.00")
account.withdraw("49.99")
print(account.number, account.balance)
assert account.balance == Decimal("100.01")
try:
    account.open()
except ValueError as exc:
    print(exc)
assert account.close() == Decimal("100.01") and not account.active
accounts = [Account(n).open("1") for n in ("x", "y")]
assert [a.number for a in accounts] == [1002, 1003]
