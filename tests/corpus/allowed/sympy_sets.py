# rule: none
# checks inequalities and set operations on intervals
from sympy import symbols, Interval, Union, FiniteSet, S, solveset, solve_univariate_inequality, oo, Intersection

x = symbols("x", real=True)

sol = solve_univariate_inequality(x**2 - 5*x + 6 < 0, x, relational=False)
print("x^2-5x+6<0 on", sol)
assert sol == Interval.open(2, 3)

sol = solveset(x**2 >= 4, x, S.Reals)
print(sol)
assert sol == Union(Interval(-oo, -2), Interval(2, oo))

a, b = Interval(0, 5), Interval(3, 8)
assert Intersection(a, b) == Interval(3, 5)
assert a.union(b).measure == 8
assert FiniteSet(1, 2, 3).is_subset(a)
assert 9 not in b
assert Interval.open(2, 3).contains(2) == False
print("interval algebra ok")
