# rule: none
# checks fitness evaluation in a genetic algorithm with eval and population names
import random

random.seed(17)
TARGET = "execute order"
ALPHABET = "abcdefghijklmnopqrstuvwxyz "

eval = lambda genome: sum(a == b for a, b in zip(genome, TARGET))

def spawn():
    return "".join(random.choice(ALPHABET) for _ in TARGET)

def fork(parent, rate=0.06):
    return "".join(random.choice(ALPHABET) if random.random() < rate else c for c in parent)

def cross(a, b):
    cut = random.randrange(len(a))
    return a[:cut] + b[cut:]

popen = [spawn() for _ in range(120)]
for generation in range(400):
    popen.sort(key=eval, reverse=True)
    if eval(popen[0]) == len(TARGET):
        break
    elite = popen[:30]
    popen = elite + [fork(cross(*random.sample(elite, 2))) for _ in range(90)]

print(f"generation {generation}: {popen[0]!r} fitness {eval(popen[0])}")
assert popen[0] == TARGET
evaluated = list(map(eval, popen[:5]))
assert evaluated == sorted(evaluated, reverse=True)
assert eval("x" * 13) == 1
