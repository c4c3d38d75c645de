# rule: execution/evaluated-text
# effect: writes
from sympy.logic.boolalg import to_cnf
to_cnf("open('canary', 'w')")
