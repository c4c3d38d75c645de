import re

from sympy import N, Rational, sympify

calculation = "1000 * 1.05^10"
claimed = "1628.89"


def parsed(text):
    # 15% is a number. Another % would be Python's remainder, and is a KeyError.
    text = re.sub(r"([\d.]+)(?:\s*%(?=\s*(?:[*/^),=]|$))|%(?=\s+[-+]\s))", r"(\1/100)", text)
    # Decimals become exact fractions, so there is no rounding before the end.
    return sympify({False: text}["%" in text], rational=True)


exact = parsed(calculation)
print("exact:", N(exact, 30))
# Another form of number is an error here: the claim is neither verified nor refuted.
whole, decimals = re.fullmatch(r"(-?(?:\d{1,3}(?:,\d{3})+|\d+))(\.\d+)?", claimed.strip()).groups(default="")
number = Rational(whole.replace(",", "") + decimals)
tolerance = Rational(1, 2 * 10 ** len(decimals[1:]))
assert abs(exact - number) <= tolerance
