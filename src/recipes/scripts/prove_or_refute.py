import ast
import operator
import re
from fractions import Fraction

from z3 import And, Bool, Implies, Int, IntNumRef, IntVal, Not, Or, Real, RealVal, Solver, ToReal

premises = []
conclusion = "x > 2 and y > 3 implies x + y > 5"
integers = []

# The conditions under which a term has no value. If one of them can hold, a KeyError follows.
undefined = []


def power(base, exponent):
    is_count = isinstance(exponent, IntNumRef) and exponent.as_long() > 0
    if not is_count:
        undefined.append(base <= 0)
    return base**exponent


def divided(left, right):
    undefined.append(right == 0)
    return real(left) / real(right)


def remainder(left, right):
    undefined.append(right <= 0)
    return left % right


ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: remainder, ast.Pow: power,
    ast.Div: divided,
}
COMPARISONS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}
CONNECTIVES = {ast.BitXor: operator.eq, ast.BitAnd: And, ast.BitOr: Or}
sorts = {}


def named(name, sort):
    # A name that is used both as a number and as a truth value causes a KeyError.
    return {sort: sort}[sorts.setdefault(name, sort)](name)


def real(term):
    return ToReal(term) if term.is_int() else term


def number(node):
    if isinstance(node, ast.Name):
        return named(node.id, Int if node.id in integers else Real)
    if isinstance(node, ast.Constant):
        # Use the decimal number as it is written, because a float would be rounded.
        text = ast.get_source_segment(source, node).replace("_", "")
        return IntVal(node.value) if isinstance(node.value, int) else RealVal(str(Fraction(text)))
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
    if isinstance(node.op, ast.Pow) and isinstance(node.right.op, ast.UAdd):
        return Implies(formula(node.left), formula(node.right.operand))
    return CONNECTIVES[type(node.op)](formula(node.left), formula(node.right))


def parsed(text):
    # Replace "implies" with **+, because ** is also right-associative, and "iff" with ^. The operands get parentheses,
    # because "implies" and "iff" bind weakly. A statement that contains **+ or ^ itself causes a KeyError.
    global source
    {None: "other signs"}[re.search(r"\^|\*\*\s*\+", text)]
    text = text.replace("(", "((").replace(")", "))")
    text = text.replace(" implies ", ") **+ (").replace(" iff ", ") ^ (")
    source = f"({text})"
    return formula(ast.parse(source, mode="eval").body)


solver = Solver()
solver.add(*(parsed(premise) for premise in premises))
# Contradictory premises imply every conclusion. They cause a KeyError, as does a problem that Z3 cannot decide. The
# conclusion is then neither proved nor refuted.
{"sat": "the premises are possible"}[str(solver.check())]
claim = parsed(conclusion)
{"unsat": "each term has a value"}[str(solver.check(Or(undefined)))]
solver.add(Not(claim))
follows = {"unsat": True, "sat": False}[str(solver.check())]
if not follows:
    print("counterexample:", solver.model())
assert follows
