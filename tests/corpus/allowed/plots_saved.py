# rule: none
# saves figures under plain names, and shows others
import importlib.util

if importlib.util.find_spec("matplotlib") is None:
    raise SystemExit(0)

import io

import matplotlib.pyplot as plt

NAME = "squares.png"
fig, ax = plt.subplots(figsize=(4, 3))
ax.plot(range(10), [n * n for n in range(10)], label="n squared")
ax.legend()
fig.savefig(NAME, dpi=120, bbox_inches="tight")
plt.savefig("squares.svg")
buffer = io.BytesIO()
plt.savefig(buffer, format="png")
assert buffer.getvalue().startswith(b"\x89PNG")
plt.close(fig)

plt.bar(["a", "b"], [1, 2])
plt.title("saved as plot.png by plt.savefig")
plt.show()
