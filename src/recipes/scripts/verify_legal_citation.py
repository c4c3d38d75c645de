from qwed_legal import CitationGuard

citation = "Brown v. Board of Education, 347 U.S. 483 (1954)"

result = CitationGuard().verify(citation)
print(result.message)
assert result.format_valid
