# rule: none
# estimates pi and a birthday probability with a fixed seed
import math
import random

rng = random.Random(20240607)

n = 200_000
inside = sum(rng.random() ** 2 + rng.random() ** 2 <= 1 for _ in range(n))
estimate = 4 * inside / n
stderr = 4 * math.sqrt(inside / n * (1 - inside / n) / n)
print(f"pi ~ {estimate:.4f} +- {1.96 * stderr:.4f}")
assert abs(estimate - math.pi) < 5 * stderr

def shared_birthday(k):
    days = [rng.randrange(365) for _ in range(k)]
    return len(set(days)) < k

trials = 20_000
freq = sum(shared_birthday(23) for _ in range(trials)) / trials
exact = 1 - math.prod((365 - i) / 365 for i in range(23))
print(f"birthday: simulated {freq:.4f}, exact {exact:.4f}")
assert abs(freq - exact) < 0.02
