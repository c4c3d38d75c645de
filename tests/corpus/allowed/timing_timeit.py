# rule: none
# compares the speed of list and set membership with timeit
import timeit
import time

data = list(range(5000))
as_set = set(data)

t_list = timeit.timeit(lambda: 4999 in data, number=300)
t_set = timeit.timeit(lambda: 4999 in as_set, number=300)
print(f"list {t_list:.5f}s set {t_set:.5f}s ratio {t_list / t_set:.1f}")
assert t_set < t_list

join = min(timeit.repeat(lambda: "".join(map(str, range(200))), number=50, repeat=3))
print(f"join {join:.5f}")

timer = timeit.Timer(data.copy)
loops, seconds = timer.autorange()
print(loops, "loops in", round(seconds, 3))

t0 = time.monotonic()
time.sleep(0.01)
assert time.monotonic() - t0 >= 0.009
