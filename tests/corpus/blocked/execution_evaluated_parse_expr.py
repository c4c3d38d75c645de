# rule: execution/evaluated-text
# effect: writes
from sympy.parsing.sympy_parser import parse_expr
parse_expr("open('canary', 'w')")
