# rule: none
# runs property loops over random data without any test framework
import random

PROPERTIES = []

def prop(fn):
    PROPERTIES.append(fn)
    return fn

def gen_list(rng):
    return [rng.randint(-9, 9) for _ in range(rng.randrange(8))]

@prop
def reverse_twice(xs, ys):
    return list(reversed(list(reversed(xs)))) == xs

@prop
def concat_length(xs, ys):
    return len(xs + ys) == len(xs) + len(ys)

@prop
def sort_idempotent(xs, ys):
    return sorted(sorted(xs)) == sorted(xs)

@prop
def set_union(xs, ys):
    return set(xs) | set(ys) == set(xs + ys)

rng = random.Random(1234)
for fn in PROPERTIES:
    for i in range(500):
        xs, ys = gen_list(rng), gen_list(rng)
        assert fn(xs, ys), f"{fn.__name__} fails for {xs} {ys}"
    print(f"{fn.__name__:<18} 500 cases OK")

# a property that is expected to fail, with shrinking
def bad(xs):
    return sum(xs) < 15

worst = next(xs for xs in (gen_list(rng) for _ in range(10000)) if not bad(xs))
while any(not bad(smaller := worst[:i] + worst[i + 1:]) for i in range(len(worst))):
    worst = smaller
print("counterexample:", worst)
assert not bad(worst)
