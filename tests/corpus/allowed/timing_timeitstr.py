# rule: none
# times two constant snippets with timeit
import timeit

slow = timeit.timeit("s = ''\nfor i in range(100): s += str(i)", number=200)
fast = timeit.timeit("''.join(str(i) for i in range(100))", number=200)
print(f"concatenate {slow:.5f}s, join {fast:.5f}s")

t = timeit.timeit("math.sqrt(2)", setup="import math", number=1000)
assert t > 0
comp = timeit.timeit("[x * x for x in range(100)]", number=500)
loop = timeit.timeit("r = []\nfor x in range(100):\n    r.append(x * x)", number=500)
print(f"comprehension {comp:.5f}s, loop {loop:.5f}s")
assert comp > 0 and loop > 0
