# rule: none
# checks call and put prices in a binomial tree
import math

def call(spot, strike):
    return max(spot - strike, 0.0)

def put(spot, strike):
    return max(strike - spot, 0.0)

def tree(payoff, s0, k, r, sigma, t, n=200):
    dt = t / n
    u = math.exp(sigma * math.sqrt(dt))
    d = 1 / u
    p = (math.exp(r * dt) - d) / (u - d)
    values = [payoff(s0 * u**j * d ** (n - j), k) for j in range(n + 1)]
    for _ in range(n):
        values = [math.exp(-r * dt) * (p * up + (1 - p) * dn) for dn, up in zip(values, values[1:])]
    return values[0]

c = tree(call, 100, 95, 0.03, 0.25, 0.75)
q = tree(put, 100, 95, 0.03, 0.25, 0.75)
print(f"call {c:.4f} put {q:.4f}")
parity = 100 - 95 * math.exp(-0.03 * 0.75)
assert abs((c - q) - parity) < 1e-9
assert call(10, 8) == 2 and put(10, 8) == 0
position = {"call": 2, "put": -1}
value = sum(n * {"call": c, "put": q}[kind] for kind, n in position.items())
assert value > 0
