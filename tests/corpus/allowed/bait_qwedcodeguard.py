# rule: none
# tests the QWED CodeGuard and CodeVerifier with dangerous snippets as data
from qwed_new.guards.code_guard import CodeGuard
from qwed_new.core.code_verifier import CodeVerifier

SNIPPETS = [
    ("x = 1 + 2", True),
    ("import math\nprint(math.pi)", True),
    ("eval('1 + 1')", False),
    ("import os\nos.system('ls')", False),
    ("__import__('os').remove('x')", False),
    ("open('secrets.txt').read()", False),
]
guard = CodeGuard()
for code, safe in SNIPPETS:
    result = guard.verify_safety(code)
    print(repr(code), "->", result["verified"], result.get("violations", []))
    assert result["verified"] is safe, code

verifier = CodeVerifier()
res = verifier.verify_code("eval(input())", language="python")
print(res.agent_message)
assert res.developer_fields["is_safe"] is False
assert verifier.verify_code("def f(x):\n    return x * 2").developer_fields["is_safe"]
