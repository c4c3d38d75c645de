# rule: none
# inspects own objects with getattr, setattr, vars, dir and inspect.signature
import inspect
from types import SimpleNamespace, MappingProxyType

class Account:
    bank = "ACME"

    def __init__(self, owner: str, balance: int = 0):
        self.owner, self.balance = owner, balance

    def deposit(self, amount: int, *, memo: str = "") -> int:
        self.balance += amount
        return self.balance

a = Account("ann")
for name, value in {"balance": 10, "owner": "Ann"}.items():
    assert hasattr(a, name)
    setattr(a, name, value)
assert a.__dict__ == vars(a) == {"owner": "Ann", "balance": 10}
assert getattr(a, "missing", "default") == "default"
assert getattr(a, "deposit")(5) == 15
assert a.__class__.__name__ == "Account" and type(a).__module__ == "__main__"

sig = inspect.signature(Account.deposit)
print(sig, [p.kind.name for p in sig.parameters.values()])
assert list(sig.parameters) == ["self", "amount", "memo"]
assert sig.return_annotation is int
public = [n for n, m in inspect.getmembers(a, inspect.ismethod) if not n.startswith("_")]
assert public == ["deposit"]
ns = SimpleNamespace(**vars(a))
delattr(a, "owner")
assert not hasattr(a, "owner") and ns.owner == "Ann"
ro = MappingProxyType({"k": 1})
print(sorted(d for d in dir(a) if not d.startswith("__")), ro["k"], Account.__doc__)
