import json
from decimal import Decimal

from qwed_ucp import UCPVerifier

cart_json = '{"currency": "USD", "status": "ready_for_complete", "line_items": [{"id": "1", "quantity": 1, "item": {"price": 100.0}}], "totals": [{"type": "subtotal", "amount": 100.0}, {"type": "total", "amount": 100.0}]}'

result = UCPVerifier().verify_checkout(json.loads(cart_json))
print(result, result.error)
assert result.verified
# Check the subtotal too, because the guard does not multiply prices by quantities. A cart in another form causes a
# KeyError.
cart = json.loads(cart_json, parse_float=Decimal)
computed = sum(line["item"]["price"] * line["quantity"] for line in cart["line_items"])
subtotal = {total["type"]: total["amount"] for total in cart["totals"]}["subtotal"]
print("subtotal:", subtotal, "computed:", computed)
assert abs(computed - subtotal) < Decimal("0.005")
