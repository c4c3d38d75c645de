"""Checks two arguments of propositional logic by trying every truth assignment.

Transposition is valid: from "p implies q" follows "not q implies not p".
Affirming the consequent is not: from "p implies q" and "q" does not follow "p".

    QWED_MCP_TRUSTED_CODE_EXECUTION=true qwed-mcp run examples/logic_by_truth_table.py
"""

from itertools import product


def implies(a, b):
    return not a or b


def counterexamples(names, premises, conclusion):
    """The assignments under which all premises hold and the conclusion does not."""
    found = []
    for values in product([True, False], repeat=len(names)):
        if all(premise(*values) for premise in premises) and not conclusion(*values):
            found.append(dict(zip(names, values)))
    return found


transposition = counterexamples(
    ["p", "q"],
    premises=[lambda p, q: implies(p, q)],
    conclusion=lambda p, q: implies(not q, not p),
)
print(f"transposition: {transposition or 'no counterexample in 4 assignments'}")
assert transposition == []

affirming = counterexamples(
    ["p", "q"],
    premises=[lambda p, q: implies(p, q), lambda p, q: q],
    conclusion=lambda p, q: p,
)
print(f"affirming the consequent: {affirming}")
assert affirming == [{"p": False, "q": True}]

# A larger one, over five variables: a chain of implications carries from its start to its end.
names = ["a", "b", "c", "d", "e"]
chain = counterexamples(
    names,
    premises=[lambda *v, i=i: implies(v[i], v[i + 1]) for i in range(len(names) - 1)],
    conclusion=lambda *v: implies(v[0], v[-1]),
)
print(f"chain of implications: {chain or 'no counterexample in 32 assignments'}")
assert chain == []

print("VERIFIED: transposition and the chain are valid, affirming the consequent is not")
