# rule: none
# checks mean, median, quartiles and correlation by hand and with statistics
import statistics as st
from statistics import NormalDist, correlation, linear_regression
import math

data = [2.5, 3.1, 4.7, 5.0, 5.0, 6.2, 7.8, 9.9]
mean = sum(data) / len(data)
var = sum((v - mean) ** 2 for v in data) / (len(data) - 1)

assert math.isclose(st.fmean(data), mean)
assert math.isclose(st.variance(data), var)
assert st.median(data) == 5.0 and st.mode(data) == 5.0
print("quartiles:", st.quantiles(data, n=4))

xs = list(range(10))
ys = [3 * x + 2 for x in xs]
slope, intercept = linear_regression(xs, ys)
assert (round(slope, 9), round(intercept, 9)) == (3, 2)
assert math.isclose(correlation(xs, ys), 1.0)

z = NormalDist()
assert abs(z.cdf(1.96) - 0.975) < 1e-4
iq = NormalDist(100, 15)
print(f"P(IQ > 130) = {1 - iq.cdf(130):.4f}")
assert abs((1 - iq.cdf(130)) - 0.0228) < 1e-4
