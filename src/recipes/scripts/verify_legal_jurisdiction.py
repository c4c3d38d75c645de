from qwed_legal import JurisdictionGuard

parties_countries = ["US", "US"]
governing_law = "Delaware"
forum = "Delaware"

result = JurisdictionGuard().verify_choice_of_law(parties_countries, governing_law, forum)
print(result.message)
# Warnings alone, and names that the guard does not know, are a KeyError: the choice is neither verified nor refuted.
is_right = result.verified or {"BLOCKED": False}[result.to_diagnostic().status.name]
assert is_right
