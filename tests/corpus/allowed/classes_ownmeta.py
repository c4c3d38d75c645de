# rule: none
# checks own metaclass, descriptors and __init_subclass__ hooks
class Registry(type):
    known = {}

    def __new__(mcls, name, bases, ns, **kw):
        cls = super().__new__(mcls, name, bases, ns, **kw)
        if bases:
            mcls.known[name.lower()] = cls
        return cls

    def __init__(cls, name, bases, ns, **kw):
        super().__init__(name, bases, ns)

class Positive:
    def __set_name__(self, owner, name):
        self.slot = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.slot)

    def __set__(self, obj, value):
        if value <= 0:
            raise ValueError(f"{self.slot[1:]} must be positive")
        setattr(obj, self.slot, value)

class Shape(metaclass=Registry):
    def __init_subclass__(cls, /, sides=0, **kw):
        super().__init_subclass__(**kw)
        cls.sides = sides

class Square(Shape, sides=4):
    side = Positive()

    def __init__(self, side):
        self.side = side

class Triangle(Shape, sides=3):
    pass

assert Registry.known == {"square": Square, "triangle": Triangle}
assert [c.__name__ for c in Shape.__subclasses__()] == ["Square", "Triangle"]
assert Square.__mro__ == (Square, Shape, object) and Square.sides == 4
assert Square(3).side == 3 and vars(Square(3)) == {"_side": 3}
try:
    Square(-1)
except ValueError as e:
    print("refused:", e)
Point = type("Point", (), {"x": 1, "norm": lambda self: abs(self.x)})
assert Point().norm() == 1
