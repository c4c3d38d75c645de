# rule: none
# checks QWED Money arithmetic and an invoice total
from decimal import Decimal
from qwed_new.core.money import Money, UnitMismatchError, verify_invoice_total

subtotal, tax = Money("1499.50", "INR"), Money("269.91", "INR")
ok, message = verify_invoice_total(subtotal, tax, Money("1769.41", "INR"))
print(ok, message)
assert ok

bad, message = verify_invoice_total(subtotal, tax, Money("1796.41", "INR"))
print(bad, message)
assert not bad

try:
    Money("1", "USD") + Money("1", "EUR")
except UnitMismatchError as exc:
    print("refused:", exc)
else:
    raise AssertionError("mixed currencies must not add")

m = Money.from_dict(Money("12.345", "USD").to_dict())
print(m, m.round())
assert m.amount == Decimal("12.345")
