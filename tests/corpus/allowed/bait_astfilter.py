# rule: none
# checks an own expression whitelist built on ast that refuses hostile text
import ast
import operator

ALLOWED = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
           ast.Div: operator.truediv, ast.Pow: operator.pow, ast.USub: operator.neg}
FORBIDDEN_NAMES = {"__builtins__", "__import__", "eval", "exec", "open", "compile", "globals", "getattr"}

class Unsafe(ValueError):
    pass

def evaluate(node, names):
    match node:
        case ast.Expression(body=body):
            return evaluate(body, names)
        case ast.Constant(value=int() | float() as v):
            return v
        case ast.Name(id=name) if name in names and name not in FORBIDDEN_NAMES:
            return names[name]
        case ast.BinOp(left=l, op=op, right=r) if type(op) in ALLOWED:
            return ALLOWED[type(op)](evaluate(l, names), evaluate(r, names))
        case ast.UnaryOp(op=ast.USub(), operand=v):
            return -evaluate(v, names)
    raise Unsafe(ast.dump(node)[:50])

def safe_eval(text, **names):
    return evaluate(ast.parse(text, mode="eval"), names)

assert safe_eval("2 * (x + 3) ** 2", x=1) == 32
assert safe_eval("-y / 4", y=10) == -2.5
for text in ["__import__('os').system('id')", "eval('1')", "open('f')", "x.__class__", "[1 for _ in x]", "globals()"]:
    try:
        safe_eval(text, x=1)
    except Unsafe as e:
        print("refused", text, "|", e)
    else:
        raise AssertionError(text)
