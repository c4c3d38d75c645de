# rule: none
# bootstraps a confidence interval for a median with numpy if present
import random
import statistics

try:
    import numpy as np
except ImportError:
    np = None

random.seed(1)
sample = [random.gauss(50, 10) for _ in range(80)]

boots = sorted(statistics.median(random.choices(sample, k=len(sample))) for _ in range(2000))
lo, hi = boots[50], boots[-51]
print(f"median {statistics.median(sample):.2f}, 95% CI [{lo:.2f}, {hi:.2f}]")
assert lo <= statistics.median(sample) <= hi
assert hi - lo < 10

if np is not None:
    arr = np.array(sample)
    rng = np.random.default_rng(1)
    meds = np.median(rng.choice(arr, size=(2000, arr.size)), axis=1)
    nlo, nhi = np.percentile(meds, [2.5, 97.5])
    print(f"numpy CI [{nlo:.2f}, {nhi:.2f}]")
    assert abs(nlo - lo) < 3 and abs(nhi - hi) < 3
