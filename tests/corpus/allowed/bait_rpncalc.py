# rule: none
# checks a reverse polish calculator against python arithmetic
import operator
import random
from fractions import Fraction

OPS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}

class Calculator:
    def evaluate(self, expression):
        stack = []
        for token in expression.split():
            if token in OPS:
                b, a = stack.pop(), stack.pop()
                stack.append(OPS[token](a, b))
            else:
                stack.append(Fraction(token))
        (result,) = stack
        return result

    eval = evaluate
    __call__ = evaluate

calc = Calculator()
assert calc.eval("3 4 + 2 *") == 14
assert calc("5 1 2 + 4 * + 3 -") == 14
assert calc.eval("1 3 /") == Fraction(1, 3)

def random_tree(rng, depth):
    if depth == 0:
        n = rng.randint(1, 9)
        return str(n), Fraction(n)
    (lt, lv), (rt, rv) = random_tree(rng, depth - 1), random_tree(rng, depth - 1)
    op = rng.choice("+-*")
    return f"{lt} {rt} {op}", OPS[op](lv, rv)

rng = random.Random(6)
for _ in range(200):
    text, value = random_tree(rng, rng.randint(0, 5))
    assert calc.eval(text) == value
try:
    calc.eval("1 2")
except ValueError as e:
    print("malformed:", e)
