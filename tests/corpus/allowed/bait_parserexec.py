# rule: none
# checks an own statement parser with exec() and compile() methods
import re

class ToyParser:
    """Runs assignments such as `x = 3 + 4`; no python code is executed."""

    TOKEN = re.compile(r"\s*(\d+|[a-z]+|[-+*=])")

    def __init__(self):
        self.vars = {}

    def compile(self, line):
        toks = self.TOKEN.findall(line)
        if toks[1] != "=":
            raise SyntaxError(line)
        return toks[0], toks[2:]

    def value(self, tok):
        return int(tok) if tok.isdigit() else self.vars[tok]

    def exec(self, program):
        for line in program.strip().splitlines():
            target, expr = self.compile(line)
            acc = self.value(expr[0])
            for op, tok in zip(expr[1::2], expr[2::2]):
                v = self.value(tok)
                acc = acc + v if op == "+" else acc - v if op == "-" else acc * v
            self.vars[target] = acc
        return self.vars

parser = ToyParser()
result = parser.exec("""
a = 3 + 4
b = a * 6
c = b - a - 1
""")
print(result)
assert result == {"a": 7, "b": 42, "c": 34}
exec_result = ToyParser().exec("z = 1")
assert exec_result == {"z": 1}
