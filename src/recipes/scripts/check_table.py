import csv
import re

from sympy import Rational, Symbol, sympify

table = "net,tax,total\n100,19,119\n250,47.50,297.50"
rule = "total = net + tax"
last_row = "data"

lines = [line.strip(" \r") for line in table.split("\n") if line.strip(" \r\t|-:")]
if all("|" in line for line in lines):
    cells = [re.fullmatch(r"\|?(.*?)\|?", line).group(1).split("|") for line in lines]
else:
    cells = list(csv.reader(lines, delimiter=max("\t;,", key=lines[0].count)))
header, *rows = [[cell.strip() for cell in row] for row in cells]

# Two columns with the same name, or a row with another number of cells, cause a KeyError.
{True: "names differ"}[len(set(header)) == len(header)]
{True: "as many cells as names"}[all(len(row) == len(header) for row in rows)]


def parsed(text):
    # Convert percentages such as 15% to fractions. Any other % causes a KeyError.
    text = re.sub(r"([\d.]+)(?:\s*%(?=\s*(?:[*/^),=]|$))|%(?=\s+[-+]\s))", r"(\1/100)", text)
    return sympify({False: text}["%" in text], rational=True)


# Replace the names of columns in the rule: column_0_ stands for the first column. An unknown name causes a KeyError.
columns = "|".join(re.escape(name) for name in sorted(header, key=len, reverse=True) if name)
named = re.sub(rf"(?<!\w)(?:{columns})(?!\w)", lambda match: f"column_{header.index(match.group())}_", rule)
places = {Symbol(f"column_{place}_"): place for place in range(len(header))}
left, formula = (parsed(side) for side in named.split("="))
target = places[left]

NUMBER = re.compile(r"(\(|-)?[$€£¥]?\s*(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?\s*(%)?(\))?")


def value_and_tolerance(cell):
    # A number in another form causes an error, so the table is neither verified nor refuted.
    sign, whole, decimals, percent, end = NUMBER.fullmatch(cell).groups(default="")
    {True: "as many parentheses"}[(sign == "(") == (end == ")")]
    scale = Rational(-1 if sign else 1, 100 if percent else 1)
    number = Rational(whole.replace(",", "") + decimals) * scale
    return number, abs(scale) / (2 * 10 ** len(decimals[1:]))


items, total = (rows[:-1], rows[-1]) if last_row == "total" else (rows, [])
for row in items:
    used = {symbol: value_and_tolerance(row[places[symbol]])[0] for symbol in formula.free_symbols}
    computed = formula.subs(used)
    claimed, tolerance = value_and_tolerance(row[target])
    print(f"{header[target]}: {row[target]}, computed: {computed}")
    assert abs(computed - claimed) <= tolerance
sums = 0
for column, cell in enumerate(total):
    # Check the sums only. A label such as "Total" has no digit, and a column of words has no sum.
    if re.search(r"\d", cell) and any(NUMBER.fullmatch(row[column]) for row in items):
        claimed, tolerance = value_and_tolerance(cell)
        sums += 1
        computed = sum(value_and_tolerance(row[column])[0] for row in items)
        print(f"sum of {header[column]}: {cell}, computed: {computed}")
        assert abs(computed - claimed) <= tolerance
# A last row without a sum causes a KeyError.
{True: "a sum"}[bool(sums) or not total]
