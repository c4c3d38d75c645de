# rule: files/figures
# effect: writes
import matplotlib.pyplot as plt

where = {"plot": "./canary"}
plt.plot([1, 2])
plt.gcf().savefig(where["plot"], format="png")
