import json

from qwed_finance import ISOGuard

message_json = '{"MsgId": "M1", "CreDtTm": "2026-01-15T09:30:00Z", "NbOfTxs": 1, "TtlIntrBkSttlmAmt": {"amount": 250.5, "currency": "EUR"}}'

result = ISOGuard().verify_payment_message(json.loads(message_json))
print(result.error)
assert result.verified
