# rule: none
# checks three sorting algorithms against sorted()
import random
from typing import Callable, Sequence

def merge_sort(a: Sequence[int]) -> list[int]:
    if len(a) <= 1:
        return list(a)
    mid = len(a) // 2
    left, right = merge_sort(a[:mid]), merge_sort(a[mid:])
    out: list[int] = []
    while left and right:
        out.append(left.pop(0) if left[0] <= right[0] else right.pop(0))
    return out + left + right

def quick_sort(a: Sequence[int]) -> list[int]:
    if not a:
        return []
    pivot, *rest = a
    return quick_sort([v for v in rest if v < pivot]) + [pivot] + quick_sort([v for v in rest if v >= pivot])

def insertion_sort(a: Sequence[int]) -> list[int]:
    out = list(a)
    for i in range(1, len(out)):
        j = i
        while j and out[j - 1] > out[j]:
            out[j - 1], out[j] = out[j], out[j - 1]
            j -= 1
    return out

algorithms: dict[str, Callable] = {f.__name__: f for f in (merge_sort, quick_sort, insertion_sort)}
random.seed(7)
for trial in range(200):
    data = [random.randint(-50, 50) for _ in range(random.randint(0, 40))]
    for name, fn in algorithms.items():
        assert fn(data) == sorted(data), (name, data)
print("200 trials passed for", ", ".join(algorithms))
