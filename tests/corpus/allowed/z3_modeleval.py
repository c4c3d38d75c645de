# rule: none
# evaluates terms in a model with model.eval and checks them again in python
from z3 import Ints, Solver, sat, Distinct, is_true

x, y, z = Ints("x y z")
solver = Solver()
solver.add(x + y + z == 30, x < y, y < z, x > 5, Distinct(x, y, z))

assert solver.check() == sat
model = solver.model()

values = {str(v): model.eval(v).as_long() for v in (x, y, z)}
print(values)
assert sum(values.values()) == 30
assert 5 < values["x"] < values["y"] < values["z"]

for c in solver.assertions():
    assert is_true(model.eval(c, model_completion=True)), c

print("product in this model:", model.eval(x * y * z))
assert model.eval(x * y * z).as_long() == values["x"] * values["y"] * values["z"]
