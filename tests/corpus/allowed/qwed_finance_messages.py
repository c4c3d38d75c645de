# rule: none
# checks IBAN, BIC and order data with qwed_finance guards
from decimal import Decimal
from qwed_finance import MessageGuard, TradingGuard, MarketRules, ISOGuard, ComplianceGuard

mg = MessageGuard()
assert mg.verify_iban("DE89 3704 0044 0532 0130 00", True).valid
assert mg.verify_iban("DE88370400440532013000", False) is not None
assert mg.verify_bic("DEUTDEFF", True).valid

def iban_ok(iban):
    s = iban.replace(" ", "")
    s = s[4:] + s[:4]
    return int("".join(str(int(ch, 36)) for ch in s)) % 97 == 1

assert iban_ok("DE89370400440532013000") and not iban_ok("DE88370400440532013000")

trading = TradingGuard({"rain-tomorrow": MarketRules(Decimal("0.01"))})
order = trading.verify_order("rain-tomorrow", "binary", "0.55", 10)
print(order.message, order.checks_passed)
assert order.verified
assert not trading.verify_order("rain-tomorrow", "binary", "0.555", 10).verified

iso = ISOGuard().verify_payment_message({"MsgId": "A1"})
print("ISO:", iso.error)
assert not iso.verified
print(ComplianceGuard().verify_aml_flag(15000, "US", True).proof)
