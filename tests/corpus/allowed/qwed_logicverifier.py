# rule: none
# proves simple theorems with the QWED LogicVerifier
from qwed_new.core.logic_verifier import LogicVerifier
from qwed_new.core.diagnostics import DiagnosticStatus

lv = LogicVerifier(timeout_ms=3000)

thm = lv.prove_theorem({"x": "Int"}, ["x > 5"], "x > 3")
print(thm.status.name, "-", thm.agent_message)
assert thm.status is DiagnosticStatus.VERIFIED
assert thm.proof_ref.startswith("sha256:")

contradiction = lv.verify_logic({"x": "Int", "y": "Int"}, ["x > y", "y > x"])
print(contradiction.developer_fields["deterministic_verdict"])
assert contradiction.developer_fields["deterministic_verdict"] == "UNSAT"

opt = lv.verify_optimization({"x": "Int"}, ["x <= 10"], "x", maximize=True)
assert opt.developer_fields["objective_value"] == "10"
