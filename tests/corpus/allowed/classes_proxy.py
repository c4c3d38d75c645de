# rule: none
# checks a logging proxy with __getattr__ and a fluent builder
class Recorder:
    def __init__(self, target):
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "log", [])

    def __getattr__(self, name):
        attr = getattr(self._target, name)
        self.log.append(name)
        return attr

    def __setattr__(self, name, value):
        self.log.append(f"{name}=")
        setattr(self._target, name, value)

class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def dot(self, other):
        return self.x * other.x + self.y * other.y

    def __eq__(self, other):
        return isinstance(other, Vector) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))

    def __matmul__(self, other):
        return self.dot(other)

    __rmul__ = __mul__ = lambda self, k: Vector(self.x * k, self.y * k)

v = Recorder(Vector(1, 2))
assert v.dot(Vector(3, 4)) == 11
v.x = 10
print(v.log)
assert v.log == ["dot", "x="] and v._target == Vector(10, 2)
assert Vector(1, 2) @ Vector(3, 4) == 11 and 2 * Vector(1, 1) == Vector(1, 1) * 2
try:
    Vector(0, 0).z = 1
except AttributeError as e:
    print("slots:", e)
assert Vector.dot.__qualname__ == "Vector.dot"
