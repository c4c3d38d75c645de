# rule: files/figures
# effect: writes
from functools import partial

from matplotlib import pyplot

pyplot.plot([1, 2])
partial(pyplot.savefig, format="png")("canary")
