# rule: none
# checks a union-find with connect and connected
import random

class Network:
    def __init__(self, n):
        self.parent = list(range(n))
        self.count = n

    def find(self, v):
        while self.parent[v] != v:
            self.parent[v] = self.parent[self.parent[v]]
            v = self.parent[v]
        return v

    def connect(self, a, b):
        ra, rb = self.find(a), self.find(b)
        if ra != rb:
            self.parent[ra] = rb
            self.count -= 1
        return ra != rb

    def connected(self, a, b):
        return self.find(a) == self.find(b)

rnd = random.Random(2)
net = Network(50)
edges = [(rnd.randrange(50), rnd.randrange(50)) for _ in range(60)]
for a, b in edges:
    net.connect(a, b)

def reachable(start):
    seen, todo = {start}, [start]
    while todo:
        v = todo.pop()
        for a, b in edges:
            for x, y in ((a, b), (b, a)):
                if x == v and y not in seen:
                    seen.add(y)
                    todo.append(y)
    return seen

groups = {frozenset(reachable(v)) for v in range(50)}
print("components:", net.count)
assert net.count == len(groups)
assert all(net.connected(0, v) == (v in reachable(0)) for v in range(50))
