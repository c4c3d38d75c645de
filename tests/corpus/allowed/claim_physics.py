# rule: none
# verifies kinematics and unit claims numerically
from math import isclose, sqrt, sin, cos, radians
from typing import NamedTuple

G = 9.81

class Shot(NamedTuple):
    speed: float
    angle: float

    @property
    def range(self):
        return self.speed**2 * sin(2 * radians(self.angle)) / G

    @property
    def height(self):
        return (self.speed * sin(radians(self.angle))) ** 2 / (2 * G)

def simulate(shot, dt=1e-4):
    x = y = top = 0.0
    vx, vy = shot.speed * cos(radians(shot.angle)), shot.speed * sin(radians(shot.angle))
    while y >= 0:
        x, y, vy = x + vx * dt, y + vy * dt, vy - G * dt
        top = max(top, y)
    return x, top

shot = Shot(20, 45)
x, top = simulate(shot)
print(f"range {shot.range:.2f} m (simulated {x:.2f}), height {shot.height:.2f} m ({top:.2f})")
assert isclose(x, shot.range, rel_tol=1e-3) and isclose(top, shot.height, rel_tol=1e-3)
best = max(range(1, 90), key=lambda a: Shot(20, a).range)
assert best == 45
assert isclose(sqrt(2 * G * 10), 14.007, rel_tol=1e-4), "impact speed from 10 m"
assert isclose(100 / 3.6, 27.7778, rel_tol=1e-5), "km/h to m/s"
