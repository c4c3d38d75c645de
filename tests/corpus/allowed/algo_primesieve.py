# rule: none
# checks a sieve, a wheel and a miller-rabin test against each other
import time
from itertools import compress, islice

def sieve(n):
    flags = bytearray([1]) * (n + 1)
    flags[:2] = b"\0\0"
    for p in range(2, int(n**0.5) + 1):
        if flags[p]:
            flags[p * p::p] = bytes(len(range(p * p, n + 1, p)))
    return list(compress(range(n + 1), flags))

def miller_rabin(n):
    if n < 2:
        return False
    for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if n % p == 0:
            return n == p
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(a, d, n)
        if x in (1, n - 1):
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True

t0 = time.perf_counter()
ps = sieve(200_000)
print(f"{len(ps)} primes in {time.perf_counter() - t0:.4f}s")
assert len(ps) == 17984
assert list(filter(miller_rabin, range(20_000))) == [p for p in ps if p < 20_000]
assert miller_rabin(2**61 - 1) and not miller_rabin(2**61 + 1)
print(*islice(ps, 10))
