import ast
import operator
from fractions import Fraction

from z3 import And, Bool, Implies, Int, IntVal, Not, Or, Real, RealVal, Solver, ToReal

premises = []
conclusion = "x > 2 and y > 3 implies x + y > 5"
integers = []

ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.Div: lambda left, right: real(left) / real(right),
}
COMPARISONS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}
CONNECTIVES = {ast.Pow: Implies, ast.BitXor: operator.eq, ast.BitAnd: And, ast.BitOr: Or}
sorts = {}


def named(name, sort):
    # A name that is a number and a truth value is a KeyError.
    return {sort: sort}[sorts.setdefault(name, sort)](name)


def real(term):
    return ToReal(term) if term.is_int() else term


def number(node):
    if isinstance(node, ast.Name):
        return named(node.id, Int if node.id in integers else Real)
    if isinstance(node, ast.Constant):
        is_whole = isinstance(node.value, int)
        return IntVal(node.value) if is_whole else RealVal(str(Fraction(str(node.value))))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number(node.operand)
    return ARITHMETIC[type(node.op)](number(node.left), number(node.right))


def formula(node):
    if isinstance(node, ast.Name):
        return named(node.id, Bool)
    if isinstance(node, ast.BoolOp):
        connect = And if isinstance(node.op, ast.And) else Or
        return connect(*(formula(value) for value in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Not(formula(node.operand))
    if isinstance(node, ast.Compare):
        terms = [number(term) for term in [node.left, *node.comparators]]
        return And(*(COMPARISONS[type(op)](*pair) for op, *pair in zip(node.ops, terms, terms[1:])))
    return CONNECTIVES[type(node.op)](formula(node.left), formula(node.right))


def parsed(text):
    # "implies" becomes ** between formulas, because ** also groups from the right. The operands get parentheses,
    # because "implies" and "iff" group more weakly than all operators of Python.
    text = text.replace("(", "((").replace(")", "))")
    text = text.replace(" implies ", ") ** (").replace(" iff ", ") ^ (")
    return formula(ast.parse(f"({text})", mode="eval").body)


solver = Solver()
solver.add(*(parsed(premise) for premise in premises))
# From premises that contradict each other, everything follows. That is a KeyError, and so is an answer that Z3 does
# not find: the conclusion is neither proved nor refuted.
{"sat": "the premises are possible"}[str(solver.check())]
solver.add(Not(parsed(conclusion)))
follows = {"unsat": True, "sat": False}[str(solver.check())]
if not follows:
    print("counterexample:", solver.model())
assert follows
