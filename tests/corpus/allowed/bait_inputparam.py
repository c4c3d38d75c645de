# rule: none
# checks functions with parameters input, file, globals and import_
import io

def parse(input, *, file=None, globals=None, import_=()):
    globals = dict(globals or {})
    for line in input.splitlines():
        key, _, value = line.partition("=")
        if key in import_:
            globals[key] = value.upper()
        elif value:
            globals[key] = value
        if file is not None:
            print(key, file=file)
    return globals

file = io.StringIO()
input = "name=ada\nlang=py\n# comment"
out = parse(input, file=file, globals={"base": "x"}, import_=("lang",))
print(out)
assert out == {"base": "x", "name": "ada", "lang": "PY"}
assert file.getvalue().splitlines() == ["name", "lang", "# comment"]

class Trade:
    def __init__(self, country):
        self.country, self.imports, self.exports = country, [], []

    def import_(self, goods, tons):
        self.imports.append((goods, tons))

    def export(self, goods, tons):
        self.exports.append((goods, tons))

    def balance(self):
        return sum(t for _, t in self.exports) - sum(t for _, t in self.imports)

t = Trade("NL")
t.import_("cocoa", 12)
t.export("cheese", 20)
assert t.balance() == 8
input = [int(v) for v in "3 1 2".split()]
assert sorted(input) == [1, 2, 3]
