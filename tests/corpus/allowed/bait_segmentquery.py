# rule: none
# checks a segment tree with query and execute against brute force
import random

class SegmentTree:
    def __init__(self, data):
        self.n = len(data)
        self.t = [0] * self.n + list(data)
        for i in range(self.n - 1, 0, -1):
            self.t[i] = self.t[2 * i] + self.t[2 * i + 1]

    def write(self, i, value):
        i += self.n
        self.t[i] = value
        while i > 1:
            i //= 2
            self.t[i] = self.t[2 * i] + self.t[2 * i + 1]

    def query(self, lo, hi):
        total, lo, hi = 0, lo + self.n, hi + self.n
        while lo < hi:
            if lo & 1:
                total += self.t[lo]; lo += 1
            if hi & 1:
                hi -= 1; total += self.t[hi]
            lo //= 2; hi //= 2
        return total

    def execute(self, command):
        op, *args = command
        return {"query": self.query, "write": self.write}[op](*args)

rng = random.Random(12)
data = [rng.randint(0, 99) for _ in range(37)]
tree = SegmentTree(data)
for _ in range(500):
    if rng.random() < 0.5:
        i, v = rng.randrange(37), rng.randint(0, 99)
        data[i] = v
        tree.execute(("write", i, v))
    else:
        a, b = sorted(rng.choices(range(38), k=2))
        assert tree.execute(("query", a, b)) == sum(data[a:b])
print("sum", tree.query(0, 37))
