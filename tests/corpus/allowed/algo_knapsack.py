# rule: none
# checks a knapsack DP against brute force
from functools import lru_cache
from itertools import combinations
import random

def knapsack(items, capacity):
    @lru_cache(maxsize=None)
    def best(i, room):
        if i == len(items):
            return 0
        weight, value = items[i]
        skip = best(i + 1, room)
        take = value + best(i + 1, room - weight) if weight <= room else 0
        return max(skip, take)
    result = best(0, capacity)
    info = best.cache_info()
    return result, info.hits

def brute(items, capacity):
    return max(
        sum(v for _, v in combo)
        for r in range(len(items) + 1)
        for combo in combinations(items, r)
        if sum(w for w, _ in combo) <= capacity
    )

random.seed(3)
for _ in range(30):
    items = tuple((random.randint(1, 12), random.randint(1, 30)) for _ in range(9))
    cap = random.randint(5, 40)
    got, hits = knapsack(items, cap)
    assert got == brute(items, cap)
print("knapsack ok, example:", knapsack(((3, 4), (4, 5), (2, 3)), 6))
