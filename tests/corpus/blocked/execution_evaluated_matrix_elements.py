# rule: execution/evaluated-text
# effect: writes
from sympy import Matrix
try:
    Matrix([["open('canary', 'w')"]])
except Exception:
    pass
