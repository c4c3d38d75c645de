# rule: none
# checks a visitor with getattr dispatch over own node classes
from dataclasses import dataclass

@dataclass
class Call:
    name: str
    args: list

@dataclass
class Const:
    value: float

@dataclass
class Import:
    module: str

class Interpreter:
    functions = {"max": max, "min": min, "system": lambda *a: sum(a), "open": lambda a: a + 1}

    def visit(self, node):
        method = getattr(self, "visit_" + node.__class__.__name__.lower(), self.generic_visit)
        return method(node)

    def visit_call(self, node):
        return self.functions[node.name](*[self.visit(a) for a in node.args])

    def visit_const(self, node):
        return node.value

    def generic_visit(self, node):
        raise TypeError(f"no visitor for {type(node).__name__}")

class Printer(Interpreter):
    def visit_call(self, node):
        return f"{node.name}({', '.join(map(self.visit, node.args))})"

    def visit_const(self, node):
        return str(node.value)

program = Call("system", [Const(1), Call("max", [Const(5), Const(3)]), Call("open", [Const(9)])])
print(Printer().visit(program), "=", Interpreter().visit(program))
assert Interpreter().visit(program) == 16
assert Printer().visit(program) == "system(1, max(5, 3), open(9))"
try:
    Interpreter().visit(Import("os"))
except TypeError as e:
    print(e)
