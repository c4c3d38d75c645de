# rule: execution/evaluated-text
# effect: writes
import sympy
sympy.sympify({"k": ["open('canary', 'w')"]})
