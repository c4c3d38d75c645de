# rule: execution/evaluated-text
# effect: writes
import sympy
sympy.lambdify([], "open('canary', 'w')")()
