# rule: none
# checks dispatch tables whose keys are eval, exec, open and system
import operator
from types import SimpleNamespace

actions = {
    "eval": lambda x: x * 2,
    "exec": lambda x: x + 1,
    "open": lambda x: [x],
    "system": lambda x: {"system": x},
    "__import__": lambda x: -x,
    "os.system": operator.neg,
}
results = {name: action(10) for name, action in actions.items()}
print(results)
assert results == {"eval": 20, "exec": 11, "open": [10], "system": {"system": 10}, "__import__": -10, "os.system": -10}
assert actions["eval"](actions["exec"](1)) == 4
assert actions.get("popen") is None

config = dict(eval=True, exec="fast", open=False, input=None, compile=3)
assert config["eval"] and not config["open"] and config.pop("exec") == "fast"

opts = SimpleNamespace(**config, shell=False)
print(opts.eval, opts.open, opts.compile)
assert opts.compile == 3 and opts.shell is False

def build(*, eval=False, exec=0, open=(), **kwargs):
    return (eval, exec, open, sorted(kwargs))

assert build(eval=1, open="x", system=2, run=3) == (1, 0, "x", ["run", "system"])
assert operator.itemgetter("open", "input")(config) == (False, None)
