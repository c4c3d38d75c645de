# rule: none
# checks itertools and operator recipes against plain loops
import itertools as it
import operator as op
from collections import ChainMap, Counter, deque, namedtuple
from functools import reduce

assert list(it.accumulate([1, 2, 3, 4], op.mul)) == [1, 2, 6, 24]
assert list(it.chain.from_iterable([[1], [2, 3]])) == [1, 2, 3]
assert [(k, len(list(g))) for k, g in it.groupby("aaabccd")] == [("a", 3), ("b", 1), ("c", 2), ("d", 1)]
assert len(list(it.permutations(range(5)))) == 120 and len(list(it.combinations(range(6), 3))) == 20
assert list(it.pairwise("abcd")) == [("a", "b"), ("b", "c"), ("c", "d")]
assert list(it.zip_longest("ab", "c", fillvalue="-")) == [("a", "c"), ("b", "-")]
assert list(it.takewhile(lambda v: v < 3, it.count())) == [0, 1, 2]

Emp = namedtuple("Emp", "name dept pay")
emps = [Emp("ann", "it", 50), Emp("bob", "hr", 40), Emp("cid", "it", 45)]
by = op.attrgetter("dept", "pay")
print([e.name for e in sorted(emps, key=by)])
assert max(emps, key=op.attrgetter("pay")).name == "ann"
assert list(map(op.itemgetter(0), emps)) == ["ann", "bob", "cid"]
assert op.methodcaller("upper")("x") == "X"

window = deque(maxlen=3)
sums = []
for v in range(6):
    window.append(v)
    sums.append(sum(window))
assert sums == [0, 1, 3, 6, 9, 12]
assert reduce(op.or_, [{1}, {2}, {3}]) == {1, 2, 3}
assert ChainMap({"a": 1}, {"a": 2, "b": 3})["b"] == 3
assert (Counter("abca") - Counter("ab")) == Counter("ac")
