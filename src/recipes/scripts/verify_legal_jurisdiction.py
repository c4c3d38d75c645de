from qwed_legal import JurisdictionGuard

parties_countries = ["US", "US"]
governing_law = "Delaware"
forum = "Delaware"

result = JurisdictionGuard().verify_choice_of_law(parties_countries, governing_law, forum)
print(result.message)
# A result with only warnings, or names that the guard does not know, cause a KeyError. The choice is then neither
# verified nor refuted.
is_right = result.verified or {"BLOCKED": False}[result.to_diagnostic().status.name]
assert is_right
