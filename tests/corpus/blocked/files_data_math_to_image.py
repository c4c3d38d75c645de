# rule: files/data
# effect: writes
from matplotlib.mathtext import math_to_image
math_to_image("$x$", "canary", format="png")
