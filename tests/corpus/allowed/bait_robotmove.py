# rule: none
# checks a robot that can move, copy and replace its path
import copy
from dataclasses import dataclass, field

@dataclass
class Robot:
    x: int = 0
    y: int = 0
    path: list = field(default_factory=list)

    def move(self, dx, dy):
        self.x += dx
        self.y += dy
        self.path.append((self.x, self.y))
        return self

    def copy(self):
        return copy.deepcopy(self)

    def replace(self, **changes):
        new = self.copy()
        for k, v in changes.items():
            setattr(new, k, v)
        return new

    def system(self):
        return "cartesian" if self.y else "line"

def run(robot, commands):
    moves = {"U": (0, 1), "D": (0, -1), "L": (-1, 0), "R": (1, 0)}
    for c in commands:
        robot.move(*moves[c])
    return robot

robot = run(Robot(), "RRUULD")
print(robot)
assert (robot.x, robot.y) == (1, 1) and len(robot.path) == 6
twin = robot.copy()
twin.move(5, 5)
assert robot.path[-1] == (1, 1) and twin.path[-1] == (6, 6)
assert robot.replace(x=9).x == 9 and robot.x == 1
assert run(Robot(), "UDLR" * 10).path.count((0, 0)) == 20
assert robot.system() == "cartesian"
