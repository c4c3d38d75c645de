import csv
import re

from sympy import Rational, sympify

table = "net,tax,total\n100,19,119\n250,47.50,297.50"
rule = "total = net + tax"
last_row = "data"

lines = [line.strip() for line in table.splitlines() if line.strip(" \t|-:")]
if all("|" in line for line in lines):
    cells = [line.strip("|").split("|") for line in lines]
else:
    cells = list(csv.reader(lines, delimiter=max("\t;,", key=lines[0].count)))
header, *rows = [[cell.strip() for cell in row] for row in cells]

# In the rule, c0 stands for the first column. Two columns with the same name are a KeyError.
{True: "names differ"}[len(set(header)) == len(header)]
columns = "|".join(re.escape(name) for name in sorted(header, key=len, reverse=True) if name)
named = re.sub(rf"(?<!\w)(?:{columns})(?!\w)", lambda match: f"c{header.index(match.group())}", rule)
named = re.sub(r"([\d.]+)\s*%", r"(\1/100)", named)
left, formula = (sympify(side, rational=True) for side in named.split("="))
target = int(str(left)[1:])

NUMBER = re.compile(r"(\(|-)?[$€£¥]?\s*(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?\s*(%)?(\))?")


def value_and_tolerance(cell):
    # Another form of number is an error here: the table is neither verified nor refuted.
    sign, whole, decimals, percent, end = NUMBER.fullmatch(cell).groups(default="")
    {True: "as many parentheses"}[(sign == "(") == (end == ")")]
    scale = Rational(-1 if sign else 1, 100 if percent else 1)
    number = Rational(whole.replace(",", "") + decimals) * scale
    return number, abs(scale) / (2 * 10 ** len(decimals[1:]))


items, total = (rows[:-1], rows[-1]) if last_row == "total" else (rows, [])
for row in items:
    used = {symbol: value_and_tolerance(row[int(str(symbol)[1:])])[0] for symbol in formula.free_symbols}
    computed = formula.subs(used)
    claimed, tolerance = value_and_tolerance(row[target])
    print(f"{header[target]}: {row[target]}, computed: {computed}")
    assert abs(computed - claimed) <= tolerance
for column, cell in enumerate(total):
    if NUMBER.fullmatch(cell):
        claimed, tolerance = value_and_tolerance(cell)
        computed = sum(value_and_tolerance(row[column])[0] for row in items)
        print(f"sum of {header[column]}: {cell}, computed: {computed}")
        assert abs(computed - claimed) <= tolerance
