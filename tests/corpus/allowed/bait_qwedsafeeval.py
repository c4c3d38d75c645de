# rule: none
# tests the QWED safe evaluator and parser with hostile expressions as text
from qwed_new.core.safe_evaluator import SafeEvaluator
from qwed_new.core.safe_parser import safe_parse_expr, SafeParserError
from qwed_new.core.taint_analyzer import TaintAnalyzer

evaluator = SafeEvaluator()
assert evaluator.safe_eval("x > 3", {"x": 5}) is True
assert not evaluator.safe_eval("x > 3", {"x": 2})

hostile = [
    "__import__('os').system('id')",
    "().__class__.__bases__[0].__subclasses__()",
    "open('/etc/passwd').read()",
]
for text in hostile:
    for check in (lambda t: evaluator.safe_eval(t, {}), safe_parse_expr):
        try:
            check(text)
        except (ValueError, SafeParserError) as e:
            print("refused:", type(e).__name__, str(e)[:60])
        else:
            raise AssertionError(f"accepted {text}")

assert str(safe_parse_expr("x**2 + 2*x + 1").factor()) == "(x + 1)**2"

report = TaintAnalyzer().analyze("q = input()\neval(q)")
print(report["status"], report["tainted_variables"])
assert not report["is_safe"] and report["vulnerabilities"][0]["sink"]["name"] == "eval"
assert TaintAnalyzer().analyze("a = 1\nprint(a)")["is_safe"]
