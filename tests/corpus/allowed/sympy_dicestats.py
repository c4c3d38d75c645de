# rule: none
# checks probabilities of dice with sympy.stats
from sympy.stats import Die, P, E, variance, density
from sympy import Rational, Eq

d1, d2 = Die("d1", 6), Die("d2", 6)
total = d1 + d2

assert E(d1) == Rational(7, 2)
assert variance(d1) == Rational(35, 12)
assert P(Eq(total, 7)) == Rational(1, 6)
assert P(total > 9) == Rational(1, 6)

table = density(total).dict
for value in sorted(table):
    bar = "#" * int(table[value] * 36)
    print(f"{int(value):>2} {str(table[value]):>5} {bar}")
assert sum(table.values()) == 1

# same distribution by enumeration
brute = {}
for a in range(1, 7):
    for b in range(1, 7):
        brute[a + b] = brute.get(a + b, 0) + Rational(1, 36)
assert brute == {int(k): v for k, v in table.items()}
