# rule: none
# checks the result models of the QWED SDK and the diagnostics of the core
from qwed_sdk.models import VerificationResult, BatchResult, VerificationType
from qwed_new.core.diagnostics import DiagnosticResult, DiagnosticStatus, compute_proof_ref

res = VerificationResult.from_dict({"status": "VERIFIED", "is_verified": True, "latency_ms": 3.5})
print(res.status, res.is_verified, res.proof_ref)
assert res.status == "VERIFIED" and not res.is_verified, "no attestation, so not verified"

batch = BatchResult.from_dict({
    "job_id": "j1", "status": "completed", "progress_percent": 100.0,
    "total_items": 1, "completed_items": 1, "failed_items": 0, "items": [],
})
assert batch.total_items == batch.completed_items + batch.failed_items
print([t.name for t in VerificationType])

d = DiagnosticResult.unverifiable("no proof available")
assert d.status is DiagnosticStatus.UNVERIFIABLE and d.proof_ref is None
assert d.to_dict()["is_authoritative"] is False
a, b = compute_proof_ref({"a": 1, "b": 2}), compute_proof_ref({"b": 2, "a": 1})
assert a == b and a.startswith("sha256:") and len(a) == 71
