# rule: none
# checks shlex splitting, locale defaults and ast.literal_eval
import ast
import locale
import shlex

assert shlex.split("cp 'my file.txt' /tmp") == ["cp", "my file.txt", "/tmp"]
assert shlex.quote("a b; rm -rf /") == "'a b; rm -rf /'"
assert shlex.join(["echo", "hello world"]) == "echo 'hello world'"

print(locale.localeconv()["decimal_point"])
assert locale.format_string("%.2f", 1234.5) in ("1234.50", "1234,50")
assert locale.atof("1.5") == 1.5

value = ast.literal_eval("{'a': [1, 2.5, (3,)], 'b': None}")
assert value == {"a": [1, 2.5, (3,)], "b": None}
for bad in ("1 + x", "f()", "__import__('os')"):
    try:
        ast.literal_eval(bad)
    except (ValueError, SyntaxError) as e:
        print("refused", bad, type(e).__name__)
    else:
        raise AssertionError(bad)

tree = ast.parse("def f(a, b=2):\n    return a + b")
fn = tree.body[0]
print(fn.name, [a.arg for a in fn.args.args], ast.unparse(fn))
assert ast.dump(ast.parse("1+1", mode="eval")).startswith("Expression")
