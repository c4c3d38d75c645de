import re

from sympy import Symbol, diff, simplify, solveset, sympify

expression = "sin(x)^2 + cos(x)^2"
claimed_result = "1"
operation = "evaluate"
variable = ""


def is_zero(term):
    # If SymPy cannot decide, this is a KeyError: the claim is neither verified nor refuted.
    return {True: True, False: False}[term.equals(0)]


def parsed(text):
    # 15% is a number. Another % would be Python's remainder, and is a KeyError.
    text = re.sub(r"([\d.]+)(?:\s*%(?=\s*(?:[*/^),=]|$))|%(?=\s+[-+]\s))", r"(\1/100)", text)
    # All names are variables, except of functions and of these constants. Otherwise SymPy would take S and beta for
    # something else.
    names = set(re.findall(r"[^\W\d]\w*\b(?!\s*\()", text)) - ({"pi", "E", "I"} - {variable})
    # Decimals become exact fractions. An equation is an error, except in "solve".
    return sympify({False: text}["%" in text], locals={name: Symbol(name) for name in names}, rational=True)


sides = [parsed(side) for side in expression.split("=")]
if operation == "solve":
    left, right = sides
    term = left - right
else:
    [term] = sides
if operation in ("derivative", "integral", "solve"):
    # Of several variables, one must be named.
    [name] = [variable] if variable else map(str, term.free_symbols)
    x = Symbol(name)
if operation == "solve":
    solutions = solveset(term, x)
    print("solutions:", solutions)
    # Infinitely many or unknown solutions are a KeyError.
    computed = {True: solutions.args}[solutions.is_FiniteSet]
    parts = [re.fullmatch(rf"\s*(?:{re.escape(name)}\s*=)?([^=]+)", part).group(1) for part in claimed_result.split(",")]
    claimed = {parsed(part) for part in parts}
    assert len(claimed) == len(computed)
    assert all(any(is_zero(solution - value) for value in claimed) for solution in computed)
elif operation == "integral":
    # An indefinite integral is right if its derivative is the expression.
    derivative = diff(parsed(claimed_result), x)
    print("derivative of the claimed integral:", derivative)
    assert is_zero(derivative - term)
else:
    computed = diff(term, x) if operation == "derivative" else simplify(term)
    print("computed:", computed)
    assert is_zero(computed - parsed(claimed_result))
