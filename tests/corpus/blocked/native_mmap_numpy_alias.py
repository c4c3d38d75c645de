# rule: files/data
# effect: writes
from numpy import memmap as grid
grid("canary", mode="w+", shape=(3,))
