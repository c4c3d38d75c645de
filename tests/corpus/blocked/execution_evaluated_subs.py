# rule: execution/evaluated-text
# effect: writes
from sympy import Symbol
x = Symbol("x")
(x + 1).subs({x: "open('canary', 'w')"})
