# rule: none
# checks bisect usage and an own binary search
import bisect
import random

def lower_bound(a, x):
    lo, hi = 0, len(a)
    while lo < hi:
        mid = (lo + hi) // 2
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    return lo

rnd = random.Random(99)
for _ in range(300):
    a = sorted(rnd.choices(range(20), k=rnd.randint(0, 15)))
    x = rnd.randint(-1, 21)
    i = lower_bound(a, x)
    assert i == bisect.bisect_left(a, x)
    assert a[:i] + [x] + a[i:] == sorted(a + [x])

def grade(score, breakpoints=(60, 70, 80, 90), grades="FDCBA"):
    return grades[bisect.bisect(breakpoints, score)]

print([grade(s) for s in (33, 99, 77, 70, 89, 90, 100)])
assert "".join(grade(s) for s in (33, 99, 77, 70, 89, 90, 100)) == "FACCBAA"

import heapq
print(list(heapq.merge([1, 4, 9], [2, 3, 10])), heapq.nsmallest(2, [5, 1, 4]))
