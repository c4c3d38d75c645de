# rule: none
# checks a chi-square statistic and a fisher exact test
from math import comb, gamma, exp
from fractions import Fraction

observed = [22, 17, 20, 26, 22, 13]
expected = sum(observed) / 6
chi2 = sum((o - expected) ** 2 / expected for o in observed)
print(f"chi2 = {chi2:.3f} with 5 degrees of freedom")
assert abs(chi2 - 5.1) < 1e-9

def chi2_pdf(x, k):
    return x ** (k / 2 - 1) * exp(-x / 2) / (2 ** (k / 2) * gamma(k / 2))

def upper_tail(x, k, top=200.0, steps=20000):
    h = (top - x) / steps
    s = chi2_pdf(x, k) + chi2_pdf(top, k)
    s += sum((4 if i % 2 else 2) * chi2_pdf(x + i * h, k) for i in range(1, steps))
    return s * h / 3

p = upper_tail(chi2, 5)
print(f"p-value = {p:.4f}")
assert 0.40 < p < 0.41

# lady tasting tea
tea = Fraction(1, comb(8, 4))
assert tea == Fraction(1, 70)
