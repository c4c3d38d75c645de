from qwed_legal import LiabilityGuard

contract_value = 1000000
cap_percentage = 15
claimed_cap = 150000

result = LiabilityGuard().verify_cap(contract_value, cap_percentage, claimed_cap)
print(result.message)
assert result.verified
