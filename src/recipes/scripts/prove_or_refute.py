import ast
import operator

from z3 import And, Bool, Implies, Int, Not, Or, Real, RealVal, Solver

premises = []
conclusion = "x > 2 and y > 3 implies x + y > 5"
integers = []

NUMBERS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod, ast.Pow: operator.pow,
}
COMPARISONS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}


def number(node):
    if isinstance(node, ast.Name):
        return Int(node.id) if node.id in integers else Real(node.id)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else RealVal(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number(node.operand)
    return NUMBERS[type(node.op)](number(node.left), number(node.right))


def formula(node):
    if isinstance(node, ast.Name):
        return Bool(node.id)
    if isinstance(node, ast.BoolOp):
        connect = And if isinstance(node.op, ast.And) else Or
        return connect(*(formula(value) for value in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Not(formula(node.operand))
    if isinstance(node, ast.Compare):
        terms = [number(term) for term in [node.left, *node.comparators]]
        return And(*(COMPARISONS[type(op)](*pair) for op, *pair in zip(node.ops, terms, terms[1:])))
    left, right = formula(node.left), formula(node.right)
    return Implies(left, right) if isinstance(node.op, ast.Pow) else left == right


def parsed(text):
    # "implies" becomes ** between formulas, because ** also groups from the right. The operands get parentheses,
    # because "implies" and "iff" group more weakly than all operators of Python.
    text = text.replace("(", "((").replace(")", "))")
    text = text.replace(" implies ", ") ** (").replace(" iff ", ") ^ (")
    return formula(ast.parse(f"({text})", mode="eval").body)


solver = Solver()
solver.add(*(parsed(premise) for premise in premises))
are_possible = {"sat": True, "unsat": False}[str(solver.check())]
assert are_possible, "the premises contradict each other"
solver.add(Not(parsed(conclusion)))
# If Z3 cannot decide, this is a KeyError: the conclusion is neither proved nor refuted.
follows = {"unsat": True, "sat": False}[str(solver.check())]
if not follows:
    print("counterexample:", solver.model())
assert follows
