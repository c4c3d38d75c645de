# rule: execution/evaluated-text
# effect: writes
import sympy
sympy.sympify("open('canary', 'w')")
