# rule: execution/evaluated-text
# effect: writes
from sympy import sin
try:
    sin("open('canary', 'w')")
except AttributeError:
    pass
