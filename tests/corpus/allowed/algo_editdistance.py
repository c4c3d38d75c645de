# rule: none
# checks levenshtein distance properties and difflib ratios
import difflib
import random
import string
from functools import cache

@cache
def lev(a: str, b: str) -> int:
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return lev(a[1:], b[1:])
    return 1 + min(lev(a[1:], b), lev(a, b[1:]), lev(a[1:], b[1:]))

assert lev("kitten", "sitting") == 3
assert lev("flaw", "lawn") == 2
assert lev("", "abc") == 3

random.seed(0)
words = ["".join(random.choices(string.ascii_lowercase[:4], k=random.randint(0, 6))) for _ in range(15)]
for a in words:
    for b in words:
        assert lev(a, b) == lev(b, a)
        assert (lev(a, b) == 0) == (a == b)
        for c in words[:5]:
            assert lev(a, c) <= lev(a, b) + lev(b, c)

ratio = difflib.SequenceMatcher(None, "kitten", "sitting").ratio()
print("ratio", round(ratio, 3), difflib.get_close_matches("appel", ["ape", "apple", "peach"]))
print("\n".join(difflib.unified_diff(["a", "b"], ["a", "c"], lineterm="")))
