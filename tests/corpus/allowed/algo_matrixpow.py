# rule: none
# checks fast fibonacci by matrix powers and big integer identities
from functools import reduce
from operator import mul
import math

def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]

def matpow(m, n):
    result = [[int(i == j) for j in range(len(m))] for i in range(len(m))]
    while n:
        if n & 1:
            result = matmul(result, m)
        m = matmul(m, m)
        n >>= 1
    return result

def fib(n):
    return matpow([[1, 1], [1, 0]], n)[0][1]

a, b = 0, 1
for n in range(300):
    assert fib(n) == a
    a, b = b, a + b

assert fib(100) == 354224848179261915075
assert all(math.gcd(fib(m), fib(n)) == fib(math.gcd(m, n)) for m in range(1, 25) for n in range(1, 25))
assert reduce(mul, range(1, 21)) == math.factorial(20)
print("F(1000) has", len(str(fib(1000))), "digits")
