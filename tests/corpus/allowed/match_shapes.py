# rule: none
# checks structural pattern matching on shapes and commands
from dataclasses import dataclass
import math

@dataclass
class Circle:
    r: float

@dataclass
class Rect:
    w: float
    h: float

def area(shape):
    match shape:
        case Circle(r=r):
            return math.pi * r**2
        case Rect(w, h) if w == h:
            return w**2
        case Rect(w, h):
            return w * h
        case {"type": "triangle", "base": b, "height": h}:
            return b * h / 2
        case [first, *rest]:
            return area(first) + sum(map(area, rest))
        case None | 0:
            return 0
        case _:
            raise TypeError(f"unknown shape {shape!r}")

assert area(Rect(2, 3)) == 6 and area(Rect(2, 2)) == 4
assert area({"type": "triangle", "base": 4, "height": 3, "color": "red"}) == 6
assert area([Rect(1, 1), Rect(2, 1), None]) == 3
assert math.isclose(area(Circle(2)), 4 * math.pi)
try:
    area("blob")
except TypeError as e:
    print(e)

def http(status):
    match status:
        case 200 | 201 | 204: return "ok"
        case int(s) if 400 <= s < 500: return "client error"
        case int(): return "other"
print([http(s) for s in (200, 404, 503)])
if (n := len("walrus")) > 5:
    print(f"{n=}")
