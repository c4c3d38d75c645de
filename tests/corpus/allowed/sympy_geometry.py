# rule: none
# checks a few plane geometry facts exactly
from sympy import Point, Triangle, Circle, Segment, Line, sqrt, pi, Rational, Polygon

A, B, C = Point(0, 0), Point(4, 0), Point(0, 3)
t = Triangle(A, B, C)
assert t.area == 6
assert t.perimeter == 12
assert t.is_right()
assert t.inradius == 1
assert t.circumradius == Rational(5, 2)
assert t.circumcenter == Point(2, Rational(3, 2))
print("incenter", t.incenter, "centroid", t.centroid)

c = Circle(Point(0, 0), 5)
assert c.area == 25 * pi
pts = c.intersection(Line(Point(-10, 3), Point(10, 3)))
print("circle meets y=3 at", pts)
assert {p.x for p in pts} == {-4, 4}

assert Segment(A, Point(1, 1)).length == sqrt(2)
hexagon = Polygon(Point(0, 0), 1, n=6)
assert abs(float(hexagon.area) - 1.5 * 3**0.5) < 1e-12
