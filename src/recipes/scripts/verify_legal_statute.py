from qwed_legal import StatuteOfLimitationsGuard

claim_type = "breach_of_contract"
jurisdiction = "California"
incident_date = "2020-01-01"
filing_date = "2023-06-01"

guard = StatuteOfLimitationsGuard()
result = guard.verify(claim_type, jurisdiction, incident_date, filing_date, claimed_within_period=True)
print(result.message)
# An unknown type of claim or jurisdiction causes a KeyError. The claim is then neither verified nor refuted.
is_in_time = {"CLAIM_VERIFIED": True, "CLAIM_INCORRECT": False}[result.status]
assert is_in_time
