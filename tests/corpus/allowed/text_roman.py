# rule: none
# checks roman numeral conversion for all values to 3999
import re

PAIRS = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
         (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
VALID = re.compile(r"^M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})$")

def to_roman(n):
    out = []
    for value, sym in PAIRS:
        q, n = divmod(n, value)
        out.append(sym * q)
    return "".join(out)

def from_roman(s):
    vals = [dict((b, a) for a, b in PAIRS)[c] for c in s]
    return sum(-v if i + 1 < len(vals) and v < vals[i + 1] else v for i, v in enumerate(vals))

for n in range(1, 4000):
    r = to_roman(n)
    assert VALID.match(r), r
    assert from_roman(r) == n
print(to_roman(1994), to_roman(2024), "longest:", max((to_roman(n) for n in range(1, 4000)), key=len))
assert not VALID.fullmatch("IIII") and not VALID.match("VX")
