# rule: none
# checks permutation groups and binomial identities
from sympy import binomial, factorial, catalan, bell, Symbol
from sympy.combinatorics import Permutation, PermutationGroup
from sympy.combinatorics.named_groups import SymmetricGroup, AlternatingGroup, DihedralGroup

assert SymmetricGroup(4).order() == 24
assert AlternatingGroup(4).order() == 12
assert DihedralGroup(5).order() == 10

p = Permutation([1, 2, 0, 4, 3])
print(p.cyclic_form, "order", p.order(), "sign", p.signature())
assert p.order() == 6 and p.signature() == -1
g = PermutationGroup([p])
assert g.is_abelian and g.order() == 6

for n in range(1, 12):
    assert sum(binomial(n, k) for k in range(n + 1)) == 2**n
    assert sum((-1) ** k * binomial(n, k) for k in range(n + 1)) == 0
    assert catalan(n) == binomial(2 * n, n) / (n + 1)
print([bell(i) for i in range(7)], factorial(10))
assert [bell(i) for i in range(7)] == [1, 1, 2, 5, 15, 52, 203]
