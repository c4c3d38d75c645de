import csv
import re

from sympy import Rational, Symbol, sympify

table = "net,tax,total\n100,19,119\n250,47.50,297.50"
rule = "total = net + tax"
last_row = "data"

lines = [line.strip() for line in table.splitlines() if line.strip(" \t|-:")]
if all("|" in line for line in lines):
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
else:
    delimiter = max("\t;,", key=lines[0].count)
    cells = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
header, *rows = cells

# Columns get names that are valid in a formula.
names = [re.sub(r"\W+", "_", name) for name in header]
for column, name in sorted(zip(header, names), key=lambda pair: -len(pair[0])):
    rule = rule.replace(column, name)
target, formula = (sympify(side, rational=True, locals={name: Symbol(name) for name in names}) for side in rule.split("="))


def value(cell):
    return Rational(re.sub(r"[^\d.eE+-]", "", cell))


def half_a_unit(cell):
    return Rational(1, 2 * 10 ** len(re.sub(r"\D", "", cell.partition(".")[2])))


for row in rows:
    given = {name: value(cell) for name, cell in zip(names, row) if re.search(r"\d", cell)}
    computed = formula.subs(given)
    claimed = row[names.index(str(target))]
    print(f"{target}: {claimed}, computed: {computed}")
    assert abs(computed - value(claimed)) <= half_a_unit(claimed)

if last_row == "total":
    *items, total = rows
    for name, column, claimed in zip(names, zip(*items), total):
        if re.search(r"\d", claimed):
            computed = sum(value(cell) for cell in column)
            print(f"sum of {name}: {claimed}, computed: {computed}")
            assert abs(computed - value(claimed)) <= half_a_unit(claimed)
