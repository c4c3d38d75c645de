import json

from qwed_ucp import UCPVerifier

cart_json = '{"currency": "USD", "status": "ready_for_complete", "line_items": [{"id": "1", "quantity": 1, "item": {"price": 100.0}}], "totals": [{"type": "subtotal", "amount": 100.0}, {"type": "total", "amount": 100.0}]}'

result = UCPVerifier().verify_checkout(json.loads(cart_json))
print(result, result.error)
assert result.verified
