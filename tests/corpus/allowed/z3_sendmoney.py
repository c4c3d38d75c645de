# rule: none
# solves SEND + MORE = MONEY with a star import
from z3 import *

letters = "SENDMORY"
d = {ch: Int(ch) for ch in letters}
s = Solver()
s.add([And(v >= 0, v <= 9) for v in d.values()])
s.add(Distinct(*d.values()), d["S"] > 0, d["M"] > 0)

def word(w):
    total = 0
    for ch in w:
        total = total * 10 + d[ch]
    return total

s.add(word("SEND") + word("MORE") == word("MONEY"))
print(s.check())
m = s.model()
num = {w: m.eval(word(w)).as_long() for w in ("SEND", "MORE", "MONEY")}
print(num)
assert num["SEND"] + num["MORE"] == num["MONEY"] == 10652

s.add(Or([v != m[v] for v in d.values()]))
assert s.check() == unsat, "the puzzle must have one solution"
