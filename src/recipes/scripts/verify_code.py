from qwed_new.guards.code_guard import CodeGuard

code = "print(sum([1, 2]))"
language = "python"

result = CodeGuard().verify_safety(code, language)
print(result["message"])
assert result["verified"]
