# rule: none
# parses QWED logic DSL text and compiles it to z3
from qwed_new.core.dsl.parser import QWEDLogicDSL
from qwed_new.core.dsl.compiler import compile_to_z3, compile_to_sympy
from z3 import Solver, sat

dsl = QWEDLogicDSL()
source = "(AND (GT x 5) (LT y 10))"
out = dsl.run(source)
print(out)
assert out["status"] == "SUCCESS"
assert out["ast"] == ["AND", ["GT", "x", 5], ["LT", "y", 10]]

compiled = compile_to_z3(dsl.parse(source).ast)
assert compiled.success, compiled.error
s = Solver()
s.add(compiled.compiled)
assert s.check() == sat
model = s.model()
print("model:", model)
x = compiled.variables["x"]
assert model.eval(x, model_completion=True).as_long() > 5

broken = dsl.run("(AND (GT x 5)")
print(broken.get("status"), broken.get("error"))
assert broken["status"] != "SUCCESS"
