# rule: none
# checks support reactions of a beam from a list of loads
from dataclasses import dataclass

@dataclass
class Load:
    position: float
    force: float

def load(position, force):
    return Load(position, force)

def loads(*pairs):
    return [load(*p) for p in pairs]

class Beam:
    def __init__(self, length):
        self.length = length
        self.loads = []

    def load(self, *items):
        self.loads.extend(items)
        return self

    def reactions(self):
        rb = sum(l.position * l.force for l in self.loads) / self.length
        return sum(l.force for l in self.loads) - rb, rb

beam = Beam(6.0).load(*loads((2, 12.0), (3, 6.0), (5, 9.0)))
ra, rb = beam.reactions()
print(f"Ra={ra:.3f} kN, Rb={rb:.3f} kN")
assert abs(ra + rb - 27) < 1e-12
assert abs(rb - (2 * 12 + 3 * 6 + 5 * 9) / 6) < 1e-12
dead_loads = [l.force for l in beam.loads]
assert sum(dead_loads) == 27
