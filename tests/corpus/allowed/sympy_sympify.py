# rule: none
# checks textual formulas against each other with sympify
from sympy import sympify, simplify, S

pairs = [
    ("(x + 1)**2", "x**2 + 2*x + 1", True),
    ("sin(x)**2 + cos(x)**2", "1", True),
    ("exp(a + b)", "exp(a)*exp(b)", True),
    ("sqrt(x**2)", "x", False),
    ("(a + b)**2", "a**2 + b**2", False),
]
for left, right, want in pairs:
    diff = simplify(sympify(left) - sympify(right))
    same = diff == 0
    mark = "=" if same else "!="
    print(f"{left:28} {mark} {right}")
    assert same is want

assert sympify("1/3 + 1/6") == S(1) / 2
assert sympify("2**10") == 1024
print("done")
