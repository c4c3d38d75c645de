"""A small ledger of integer cents, to be tested."""

from __future__ import annotations


class Overdrawn(Exception):
    """The account would have a negative balance."""


class Ledger:
    def __init__(self) -> None:
        self.balances: dict[str, int] = {}

    def deposit(self, account: str, cents: int) -> int:
        if cents <= 0:
            raise ValueError("a deposit is positive")
        self.balances[account] = self.balances.get(account, 0) + cents
        return self.balances[account]

    def withdraw(self, account: str, cents: int) -> int:
        if self.balances.get(account, 0) < cents:
            raise Overdrawn(account)
        self.balances[account] -= cents
        return self.balances[account]

    def transfer(self, source: str, target: str, cents: int) -> None:
        self.withdraw(source, cents)
        self.deposit(target, cents)
