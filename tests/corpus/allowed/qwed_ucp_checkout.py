# rule: none
# checks a checkout object with the UCP verifier and its guards
from decimal import Decimal
from qwed_ucp import UCPVerifier, TipGuard, DiscountGuard, RefundGuard, CurrencyGuard, FeeGuard, LineItemsGuard, StateGuard

checkout = {
    "currency": "USD",
    "line_items": [{"id": "1", "quantity": 2, "item": {"price": 50.0}}],
    "totals": [{"type": "subtotal", "amount": 100.00}, {"type": "total", "amount": 100.00}],
    "status": "ready_for_complete",
}
result = UCPVerifier().verify_checkout(checkout)
print(result, result.status.name)
for g in result.guards:
    print(" ", g.guard_name, g.verified, g.error)

D = Decimal
assert TipGuard().verify_percentage_tip(D(100), D(15), D(15)).verified
assert DiscountGuard().verify_percentage_discount(D(100), D(10), D(10)).verified
assert not DiscountGuard().verify_percentage_discount(D(100), D(11), D(10)).verified
assert RefundGuard().verify_full_refund(D(10), D(10)).verified
assert CurrencyGuard().verify({"currency": "USD"}).verified
assert CurrencyGuard().verify_conversion(D(100), "USD", "EUR", D(92), D("0.92")).verified
assert FeeGuard().verify_service_fee(D(100), D(5), D(5)).verified
assert LineItemsGuard().verify_item(D("9.99"), 3, D("29.97")).verified
assert StateGuard().verify_transition("incomplete", "ready_for_complete").verified
