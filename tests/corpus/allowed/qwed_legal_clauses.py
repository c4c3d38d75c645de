# rule: none
# checks clauses, citations and statutes with qwed_legal
from qwed_legal import ClauseGuard, CitationGuard, StatuteOfLimitationsGuard, IRACGuard, JurisdictionGuard

clauses = [
    "Either party may terminate with 30 days notice.",
    "This agreement may not be terminated for 12 months.",
]
res = ClauseGuard().check_consistency(clauses)
print(res.status, res.conflicts)
assert not res.consistent

cit = CitationGuard().verify("Brown v. Board of Education, 347 U.S. 483 (1954)")
print(cit.citation_type, dict(cit.parsed_components))
assert cit.format_valid and not cit.verified

stat = StatuteOfLimitationsGuard().verify("breach_of_contract", "California", "2020-01-01", "2023-01-01")
print(stat.days_remaining, "days remaining until", stat.expiration_date.date())
assert stat.limitation_period_years == 4.0

text = "Issue: was it late?\nRule: 30 days.\nApplication: it came on day 40.\nConclusion: late."
print(IRACGuard().verify_structure(text)["status"])
jur = JurisdictionGuard().verify_choice_of_law(["US", "UK"], "Delaware", "London")
assert jur.conflicts
