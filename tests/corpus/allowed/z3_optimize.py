# rule: none
# checks the optimum of a small production plan
from z3 import Optimize, Ints, Int, sat, Sum, If, Bools

x, y = Ints("x y")
opt = Optimize()
opt.add(x >= 0, y >= 0)
opt.add(2 * x + y <= 100)   # machine hours
opt.add(x + 3 * y <= 90)    # labour
profit = opt.maximize(40 * x + 30 * y)
assert opt.check() == sat
m = opt.model()
best = (m[x].as_long(), m[y].as_long())
print("plan:", best, "profit:", opt.upper(profit))

brute = max(
    (40 * a + 30 * b, (a, b))
    for a in range(51) for b in range(31)
    if 2 * a + b <= 100 and a + 3 * b <= 90
)
assert brute[0] == opt.upper(profit).as_long()

# soft constraints
p, q = Bools("p q")
o = Optimize()
o.add(p != q)
o.add_soft(p, 3)
o.add_soft(q, 1)
o.check()
assert bool(o.model()[p]) and not bool(o.model()[q])
