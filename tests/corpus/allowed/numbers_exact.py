# rule: none
# checks integer, float and complex facts
import cmath
import math
import numbers
from decimal import Decimal
from fractions import Fraction

assert 0.1 + 0.2 != 0.3 and math.isclose(0.1 + 0.2, 0.3)
assert math.fsum([0.1] * 10) == 1.0 and sum([0.1] * 10) != 1.0
assert round(2.5) == 2 and round(3.5) == 4
assert -7 // 2 == -4 and -7 % 2 == 1 and math.fmod(-7, 2) == -1.0
assert divmod(-7, 2) == (-4, 1)
assert (0.5).as_integer_ratio() == (1, 2) and float.fromhex("0x1.8p1") == 3.0
assert math.nan != math.nan and math.inf > 10**308
assert cmath.isclose(cmath.exp(1j * math.pi), -1)
assert abs(3 + 4j) == 5 and (1 + 2j).conjugate() == 1 - 2j

for v in (1, 1.0, Fraction(1), Decimal(1), 1 + 0j, True):
    kinds = [n for n in ("Integral", "Rational", "Real", "Complex") if isinstance(v, getattr(numbers, n))]
    print(f"{type(v).__name__:9}", kinds)
    assert v == 1
assert hash(1) == hash(1.0) == hash(Fraction(1)) == hash(Decimal(1))
assert math.comb(52, 5) == 2598960 and math.perm(5, 2) == 20 and math.isqrt(10**20) == 10**10
assert int("ff", 16) == 255 and bin(10) == "0b1010" and (255).bit_count() == 8
assert pow(3, -1, 7) == 5
