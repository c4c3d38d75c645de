# rule: none
# checks an LRU cache against functools.lru_cache statistics
from collections import OrderedDict
from functools import lru_cache
import random

class LRU:
    def __init__(self, size):
        self.size = size
        self.data = OrderedDict()
        self.hits = self.misses = 0

    def lookup(self, key, compute):
        if key in self.data:
            self.hits += 1
            self.data.move_to_end(key)
        else:
            self.misses += 1
            self.data[key] = compute(key)
            if len(self.data) > self.size:
                self.data.popitem(last=False)
        return self.data[key]

@lru_cache(maxsize=8)
def square(n):
    return n * n

mine = LRU(8)
rnd = random.Random(11)
for _ in range(1000):
    k = int(rnd.gauss(0, 5))
    assert mine.lookup(k, lambda n: n * n) == square(k)

info = square.cache_info()
print(info, "| mine:", mine.hits, mine.misses)
assert (mine.hits, mine.misses) == (info.hits, info.misses)
square.cache_clear()
