# rule: none
# checks a thread pool map, futures and exceptions
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
import math
import os
import threading

def is_prime(n):
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))

workers = min(4, os.cpu_count() or 1)
numbers = list(range(1000, 1100))
with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="calc") as pool:
    flags = list(pool.map(is_prime, numbers))
    primes = [n for n, ok in zip(numbers, flags) if ok]
    print(primes)
    assert primes[0] == 1009 and len(primes) == 16

    futures = {pool.submit(math.factorial, n): n for n in range(8)}
    for fut in as_completed(futures):
        assert fut.result() == math.factorial(futures[fut])

    bad = pool.submit(lambda: 1 / 0)
    wait([bad])
    assert isinstance(bad.exception(), ZeroDivisionError)
    name = pool.submit(lambda: threading.current_thread().name).result()
    assert name.startswith("calc")
print("done with", workers, "workers")
