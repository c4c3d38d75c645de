# rule: none
# uses compile() of the QWED Z3 compiler and model.eval of z3
from qwed_new.core.dsl.parser import QWEDLogicDSL
from qwed_new.core.dsl.compiler import Z3Compiler, SymPyCompiler
from z3 import Solver, sat, is_true

parser = QWEDLogicDSL()
compiler = Z3Compiler()
sources = {
    "(AND (GT x 5) (LT x 8))": "sat",
    "(AND (GT x 5) (LT x 3))": "unsat",
    "(OR (EQ x 1) (EQ x 2))": "sat",
}
for source, want in sources.items():
    code = parser.parse(source)
    assert code.success, code.error
    compiled = compiler.compile(code.ast)
    solver = Solver()
    solver.add(compiled.compiled)
    verdict = str(solver.check())
    print(f"{source:28} {verdict}")
    assert verdict == want
    if verdict == "sat":
        model = solver.model()
        assert is_true(model.eval(compiled.compiled, model_completion=True))

formula = SymPyCompiler().compile(parser.parse("(PLUS x 2)").ast)
print(formula.success, formula.compiled, formula.error)
run = parser.run("(GT a b)")
assert run["ast"][0] == "GT"
