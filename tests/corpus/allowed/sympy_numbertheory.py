# rule: none
# checks primes, totients, modular inverses and the chinese remainder theorem
from sympy import isprime, primerange, factorint, totient, mod_inverse, gcd, divisors, nextprime
from sympy.ntheory.modular import crt

primes = list(primerange(2, 50))
print(primes)
assert len(primes) == 15
assert all(isprime(p) for p in primes)

n = 2**5 * 3**2 * 97
f = factorint(n)
print(f"{n} = " + " * ".join(f"{p}^{e}" for p, e in f.items()))
assert f == {2: 5, 3: 2, 97: 1}
assert totient(n) == 16 * 6 * 96
assert len(divisors(n)) == 6 * 3 * 2

assert mod_inverse(3, 11) == 4
x, m = crt([3, 5, 7], [2, 3, 2])
print("crt:", x, "mod", m)
assert (x, m) == (23, 105)
assert gcd(84, 36) == 12
assert nextprime(10**6) == 1000003
# Fermat's little theorem
for p in primes[1:]:
    assert pow(2, p - 1, p) == 1
print("ok")
