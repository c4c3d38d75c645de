# rule: none
# checks generator pipelines with send, throw, close and yield from
from itertools import islice

def averager():
    total = count = 0
    average = None
    while True:
        try:
            value = yield average
        except ValueError:
            total = count = 0
            average = None
            continue
        total += value
        count += 1
        average = total / count

avg = averager()
next(avg)
assert [avg.send(v) for v in (10, 20, 60)] == [10, 15, 30]
avg.throw(ValueError("reset"))
assert avg.send(5) == 5
avg.close()

def flatten(tree):
    for node in tree:
        if isinstance(node, list):
            yield from flatten(node)
        else:
            yield node

assert list(flatten([1, [2, [3, [4]], 5], [[6]]])) == [1, 2, 3, 4, 5, 6]

def primes():
    found = []
    n = 2
    while True:
        if all(n % p for p in found if p * p <= n):
            found.append(n)
            yield n
        n += 1

first = list(islice(primes(), 10))
print(first, sum(x for x in islice(primes(), 100)))
assert first[-1] == 29
*head, last = (x**2 for x in range(4))
assert (head, last) == ([0, 1, 4], 9)
