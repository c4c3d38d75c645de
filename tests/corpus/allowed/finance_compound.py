# rule: none
# compares compounding frequencies with the continuous limit
import math

P, r, t = 10_000, 0.045, 7
freq = {"yearly": 1, "quarterly": 4, "monthly": 12, "daily": 365}
values = {name: P * (1 + r / n) ** (n * t) for name, n in freq.items()}
values["continuous"] = P * math.exp(r * t)

for name, v in values.items():
    apy = (v / P) ** (1 / t) - 1
    print(f"{name:<11}{v:>12,.2f}  APY {apy:.4%}")

ordered = list(values.values())
assert ordered == sorted(ordered), "more compounding means more interest"
assert math.isclose(values["yearly"], 13608.62, abs_tol=0.01)
years_to_double = math.log(2) / math.log1p(r)
print(f"doubles in {years_to_double:.2f} years; rule of 72 says {72 / (100 * r):.2f}")
assert abs(years_to_double - 72 / (100 * r)) < 0.5
