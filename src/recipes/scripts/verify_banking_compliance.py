import json

from qwed_finance import FinanceVerifier

scenario = "monthly_payment principal=100000 annual_rate=0.06 months=360"
llm_output = "599.55"

calculation, *settings = scenario.split()
values = {name: json.loads(value) for name, _, value in (text.partition("=") for text in settings)}
verifier = FinanceVerifier()
calculations = {
    "compound_interest": verifier.verify_compound_interest,
    "irr": verifier.verify_irr,
    "monthly_payment": verifier.verify_monthly_payment,
    "npv": verifier.verify_npv,
    "total_interest": verifier.verify_total_interest,
}
result = calculations[calculation](llm_output=llm_output, **values)
print("computed:", result.computed_value)
assert result.verified
