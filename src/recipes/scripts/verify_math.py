import re

from sympy import Symbol, diff, simplify, solveset, sympify

expression = "sin(x)^2 + cos(x)^2"
claimed_result = "1"
operation = "evaluate"
variable = ""


def is_zero(term):
    # If SymPy cannot decide, a KeyError follows, and the claim is neither verified nor refuted.
    return {True: True, False: False}[term.equals(0)]


def parsed(text):
    # Convert percentages such as 15% to fractions. Any other % causes a KeyError.
    text = re.sub(r"([\d.]+)(?:\s*%(?=\s*(?:[*/^),=]|$))|%(?=\s+[-+]\s))", r"(\1/100)", text)
    # Define names as variables, except functions and these constants. SymPy has other meanings for S and beta.
    names = set(re.findall(r"[^\W\d]\w*\b(?!\s*\()", text)) - ({"pi", "E", "I"} - {variable})
    # Convert decimals to exact fractions. An equation causes an error, except in "solve".
    return sympify({False: text}["%" in text], locals={name: Symbol(name) for name in names}, rational=True)


sides = [parsed(side) for side in expression.split("=")]
if operation == "solve":
    left, right = sides
    term = left - right
else:
    [term] = sides
if operation in ("derivative", "integral", "solve"):
    # If the term has several variables, `variable` must name one of them.
    [name] = [variable] if variable else map(str, term.free_symbols)
    x = Symbol(name)
if operation == "solve":
    solutions = solveset(term, x)
    print("solutions:", solutions)
    # Infinitely many or unknown solutions cause a KeyError.
    computed = {True: solutions.args}[solutions.is_FiniteSet]
    parts = [re.fullmatch(rf"\s*(?:{re.escape(name)}\s*=)?([^=]+)", part).group(1) for part in claimed_result.split(",")]
    claimed = {parsed(part) for part in parts}
    assert len(claimed) == len(computed)
    assert all(any(is_zero(solution - value) for value in claimed) for solution in computed)
elif operation == "integral":
    # An indefinite integral is correct if its derivative is the expression.
    derivative = diff(parsed(claimed_result), x)
    print("derivative of the claimed integral:", derivative)
    assert is_zero(derivative - term)
else:
    computed = diff(term, x) if operation == "derivative" else simplify(term)
    print("computed:", computed)
    assert is_zero(computed - parsed(claimed_result))
