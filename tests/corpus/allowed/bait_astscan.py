# rule: none
# analyses python source text with ast to count calls and names
import ast

SOURCE = '''
import os, subprocess
from pickle import loads

def danger(cmd):
    os.system(cmd)
    eval(cmd)
    return subprocess.run(cmd, shell=True)

def fine(x):
    return max(x) + len(x)
'''

class CallFinder(ast.NodeVisitor):
    def __init__(self):
        self.calls = []

    def visit_Call(self, node):
        self.calls.append((node.lineno, ast.unparse(node.func)))
        self.generic_visit(node)

tree = ast.parse(SOURCE)
finder = CallFinder()
finder.visit(tree)
for line, name in finder.calls:
    print(f"line {line}: {name}")
names = [n for _, n in finder.calls]
assert names == ["os.system", "eval", "subprocess.run", "max", "len"]

imports = [a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names]
assert imports == ["os", "subprocess", "loads"]
functions = {n.name: len(n.body) for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
assert functions == {"danger": 3, "fine": 1}
FORBIDDEN = {"eval", "exec", "os.system", "subprocess.run", "__import__"}
report = {f.name: sorted({ast.unparse(c.func) for c in ast.walk(f) if isinstance(c, ast.Call)} & FORBIDDEN)
          for f in tree.body if isinstance(f, ast.FunctionDef)}
assert report == {"danger": ["eval", "os.system", "subprocess.run"], "fine": []}
