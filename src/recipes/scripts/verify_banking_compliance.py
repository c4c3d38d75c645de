import json
import re

from qwed_finance import FinanceVerifier

scenario = "monthly_payment principal=100000 annual_rate=0.06 months=360"
llm_output = "599.55"

calculation, *settings = scenario.split()
values = {name: json.loads(value) for name, _, value in (text.partition("=") for text in settings)}
verifier = FinanceVerifier()
calculations = {
    "compound_interest": (verifier.verify_compound_interest, {"principal", "rate", "periods"}),
    "irr": (verifier.verify_irr, {"cashflows"}),
    "monthly_payment": (verifier.verify_monthly_payment, {"principal", "annual_rate", "months"}),
    "npv": (verifier.verify_npv, {"cashflows", "rate"}),
    "total_interest": (verifier.verify_total_interest, {"principal", "annual_rate", "months"}),
}
verify, names = calculations[calculation]
# Other values, a number in another form, and cash flows with several rates of return cause a KeyError. The figure is
# then neither verified nor refuted.
{True: "exactly these values"}[set(values) == names]
NUMBER = r"(-?[$€£¥]?|[$€£¥]-)(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s*%?"
{True: "a decimal number"}[bool(re.fullmatch(NUMBER, llm_output.strip()))]
signs = [flow > 0 for flow in values.get("cashflows", []) if flow]
{True: "one rate"}[calculation != "irr" or sum(pair[0] != pair[1] for pair in zip(signs, signs[1:])) == 1]
result = verify(llm_output=llm_output, **values)
print("computed:", result.computed_value)
assert result.verified
