from qwed_legal import JurisdictionGuard

parties_countries = ["US", "US"]
governing_law = "Delaware"
forum = "Delaware"

result = JurisdictionGuard().verify_choice_of_law(parties_countries, governing_law, forum)
print(result.message)
assert result.verified
