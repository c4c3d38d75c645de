import re

from qwed_legal import DeadlineGuard

signing_date = "2026-01-15"
term = "30 business days"
claimed_deadline = "2026-03-02"
country = "US"

# The guard ignores additional text in a term, such as "excluding holidays". Here such a term causes a KeyError.
is_plain = re.fullmatch(r"\d+ ((business|working|calendar) )?(day|week|month|year)s?", term.strip().lower())
{True: "a number and a unit"}[bool(is_plain)]
result = DeadlineGuard(country).verify(signing_date, term, claimed_deadline)
print(result.message)
# A term that the guard cannot compute causes a KeyError. The deadline is then neither verified nor refuted.
is_right = {True: result.verified}[result.is_computable]
assert is_right
