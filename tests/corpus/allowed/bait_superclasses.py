# rule: none
# checks inheritance with eval, exec and run calling super
class Expr:
    def eval(self, env):
        raise NotImplementedError

    def run(self, **env):
        return self.eval(env)

class Num(Expr):
    def __init__(self, n):
        self.n = n

    def eval(self, env):
        return self.n

class Var(Expr):
    def __init__(self, name):
        self.name = name

    def eval(self, env):
        return env[self.name]

class Add(Expr):
    op = staticmethod(lambda a, b: a + b)

    def __init__(self, left, right):
        self.left, self.right = left, right

    def eval(self, env):
        return self.op(self.left.eval(env), self.right.eval(env))

class Mul(Add):
    op = staticmethod(lambda a, b: a * b)

class Traced(Mul):
    calls = 0

    def eval(self, env):
        Traced.calls += 1
        return super().eval(env)

expr = Add(Traced(Num(3), Var("x")), Num(4))
assert [expr.run(x=x) for x in range(4)] == [4, 7, 10, 13]
assert Traced.calls == 4 and Traced.__mro__[1:3] == (Mul, Add)
print([k.__name__ for k in Expr.__subclasses__()], Traced.__bases__[0].__name__)
assert expr.__class__.eval(expr, {"x": 1}) == 7
assert getattr(expr, "eval")({"x": 2}) == 10
try:
    Expr().run()
except NotImplementedError:
    print("abstract")
