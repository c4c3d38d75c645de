from sympy import N, Rational, sympify

calculation = "1000 * 1.05^10"
claimed = "1628.89"

# Decimals become exact fractions, so there is no rounding before the end.
exact = sympify(calculation.replace(",", ""), rational=True)
print("exact:", N(exact, 30))
number = claimed.replace(",", "")
decimals = len(number.partition(".")[2])
assert abs(exact - Rational(number)) <= Rational(1, 2 * 10**decimals)
