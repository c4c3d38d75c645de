# rule: none
# simulates the monty hall problem and checks the 2/3 claim
import random
from collections import Counter

random.seed(42)

def game(switch: bool) -> bool:
    doors = [0, 1, 2]
    car = random.choice(doors)
    pick = random.choice(doors)
    opened = random.choice([d for d in doors if d not in (car, pick)])
    if switch:
        pick = next(d for d in doors if d not in (pick, opened))
    return pick == car

N = 30000
wins = Counter()
for strategy in (True, False):
    wins[strategy] = sum(game(strategy) for _ in range(N))
print(f"switch: {wins[True] / N:.3f}   stay: {wins[False] / N:.3f}")
assert abs(wins[True] / N - 2 / 3) < 0.02
assert abs(wins[False] / N - 1 / 3) < 0.02
