from sympy import FiniteSet, diff, solveset, sympify

expression = "sin(x)^2 + cos(x)^2"
claimed_result = "1"
operation = "evaluate"

left, _, right = expression.partition("=")
term = sympify(left) - sympify(right or 0)
variable = min(term.free_symbols, key=str, default=None)
if operation == "solve":
    computed = solveset(term, variable)
    claimed = FiniteSet(*(sympify(part.split("=")[-1]) for part in claimed_result.split(",")))
    assert computed == claimed
else:
    claimed = sympify(claimed_result)
    if operation == "derivative":
        difference = diff(term, variable) - claimed
    elif operation == "integral":
        # An indefinite integral is right if its derivative is the expression.
        difference = diff(claimed, variable) - term
    else:
        difference = term - claimed
    # If SymPy cannot decide, this is a KeyError: the claim is neither verified nor refuted.
    is_equal = {True: True, False: False}[difference.equals(0)]
    assert is_equal
