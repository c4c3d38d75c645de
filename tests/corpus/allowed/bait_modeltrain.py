# rule: none
# checks a tiny perceptron that has train() and eval() modes
import random

class Perceptron:
    def __init__(self, n, seed=0):
        rnd = random.Random(seed)
        self.w = [rnd.uniform(-1, 1) for _ in range(n + 1)]
        self.training = True

    def train(self, mode=True):
        self.training = mode
        return self

    def eval(self):
        return self.train(False)

    def __call__(self, x):
        s = self.w[0] + sum(w * v for w, v in zip(self.w[1:], x))
        return int(s > 0)

    def step(self, x, y, lr=0.1):
        assert self.training, "call model.train() first"
        err = y - self(x)
        self.w[0] += lr * err
        for i, v in enumerate(x, 1):
            self.w[i] += lr * err * v

data = [((a, b), a & b) for a in (0, 1) for b in (0, 1)]
model = Perceptron(2)
model.train()
for epoch in range(100):
    for x, y in data:
        model.step(x, y)
model.eval()
assert all(model(x) == y for x, y in data)
try:
    model.step((0, 0), 0)
except AssertionError as e:
    print("in eval mode:", e)
print("weights", [round(w, 2) for w in model.w])
