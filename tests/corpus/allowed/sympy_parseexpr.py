# rule: none
# parses plain formulas from a table and evaluates them
from sympy import Symbol
from sympy.parsing.sympy_parser import (
    parse_expr,
    standard_transformations,
    implicit_multiplication_application,
    convert_xor,
)

T = standard_transformations + (implicit_multiplication_application, convert_xor)
x = Symbol("x")

table = [
    ("2x + 3", 5, 13),
    ("x^2 - 4x + 4", 2, 0),
    ("(x + 1)(x - 1)", 3, 8),
    ("3 x^3", 2, 24),
]
for text, value, expected in table:
    expr = parse_expr(text, transformations=T)
    got = expr.subs(x, value)
    print(f"{text!r:20} at x={value}: {got}")
    assert got == expected

expr = parse_expr("a*x + b", local_dict={"x": x})
assert x in expr.free_symbols and len(expr.free_symbols) == 3
