# rule: none
# checks recursive functions called walk, visit and glob on a nested dictionary
from fnmatch import fnmatchcase

tree = {"src": {"main.py": 120, "util": {"io.py": 40, "os.py": 60}}, "README": 10, "tests": {"test_io.py": 30}}

def walk(node, prefix=""):
    for name, child in node.items():
        path = f"{prefix}/{name}" if prefix else name
        if isinstance(child, dict):
            yield from walk(child, path)
        else:
            yield path, child

def glob(pattern):
    return [p for p, _ in walk(tree) if fnmatchcase(p, pattern)]

def visit(node, fn, depth=0):
    for name, child in sorted(node.items()):
        fn(name, depth)
        if isinstance(child, dict):
            visit(child, fn, depth + 1)

files = dict(walk(tree))
print(files)
assert sum(files.values()) == 260 and files["src/util/os.py"] == 60
assert glob("*.py") == ["src/main.py", "src/util/io.py", "src/util/os.py", "tests/test_io.py"]
seen = []
visit(tree, lambda name, depth: seen.append((depth, name)))
for depth, name in seen:
    print("  " * depth + name)
assert max(d for d, _ in seen) == 2 and len(seen) == 8

def remove(node, name):
    return {k: remove(v, name) if isinstance(v, dict) else v for k, v in node.items() if k != name}
assert sum(size for _, size in walk(remove(tree, "util"))) == 160
