# rule: none
# checks class bodies that define names of builtins
class Codec:
    open = 1
    input = [open, open + 1]

    def eval(self):
        return self.open + len(self.input)

    def compile(self, exec=3):
        return exec * self.eval()

    @property
    def exec(self):
        return "ready"

    @staticmethod
    def __import__(name):
        return f"goods from {name}"

    @classmethod
    def globals(cls):
        return {k for k in vars(cls) if not k.startswith("_")}

    class os:
        name = "toy"

        @staticmethod
        def system(x):
            return x**2

c = Codec()
assert c.eval() == 3 and c.compile() == 9 and c.compile(exec=1) == 3
assert c.exec == "ready" and Codec.open == 1
assert c.__import__("Spain") == "goods from Spain"
assert Codec.os.system(5) == 25 and c.os.name == "toy"
print(sorted(c.globals()))
assert {"open", "eval", "compile", "exec"} <= Codec.globals()
assert eval is not Codec.eval and open is not Codec.open
