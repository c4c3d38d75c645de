import re

from sympy import N, Rational, sympify

calculation = "1000 * 1.05^10"
claimed = "1628.89"


def parsed(text):
    # Convert percentages such as 15% to fractions. Any other % causes a KeyError.
    text = re.sub(r"([\d.]+)(?:\s*%(?=\s*(?:[*/^),=]|$))|%(?=\s+[-+]\s))", r"(\1/100)", text)
    # Convert decimals to exact fractions, to avoid rounding.
    return sympify({False: text}["%" in text], rational=True)


exact = parsed(calculation)
print("exact:", N(exact, 30))
# A claim in another form causes an error, so it is neither verified nor refuted.
whole, decimals = re.fullmatch(r"(-?(?:\d{1,3}(?:,\d{3})+|\d+))(\.\d+)?", claimed.strip()).groups(default="")
number = Rational(whole.replace(",", "") + decimals)
tolerance = Rational(1, 2 * 10 ** len(decimals[1:]))
assert abs(exact - number) <= tolerance
