# rule: none
# checks call counting, __call__ and operator use on own callables
import operator
from functools import update_wrapper

class CountCalls:
    def __init__(self, fn):
        self.fn, self.calls = fn, 0
        update_wrapper(self, fn)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.fn(*args, **kwargs)

    def call(self, *args):
        return self(*args)

    run = call
    execute = call

@CountCalls
def power(a, b=2):
    "Raise a to b."
    return a**b

assert power(3) == 9 and power.call(2, 10) == 1024 and power.run(5) == 25
assert power.__call__(2) == 4 and power.execute(1) == 1
assert power.calls == 5 and power.__name__ == "power" and power.__doc__ == "Raise a to b."
assert operator.call(power, 7) == 49

calls = {"os.system": 0, "eval": 0}
def trace(name):
    calls[name] += 1
    return calls[name]

for name in ["eval", "os.system", "eval"]:
    trace(name)
print(calls, power.calls)
assert calls == {"os.system": 1, "eval": 2}
assert list(map(power, [1, 2, 3])) == [1, 4, 9]
