# rule: none
# checks provenance hashes with qwed_legal and hashlib
import hashlib
from dataclasses import asdict, replace
from qwed_legal import ProvenanceGuard, ContradictionGuard, Clause

content = "This summary is AI-generated content."
guard = ProvenanceGuard(require_disclosure=True)
record = guard.generate_provenance(content, model_id="test-model")
assert record.content_hash == hashlib.sha256(content.encode()).hexdigest()

ok = guard.verify_provenance(content, asdict(record))
print(ok["message"], ok["checks_passed"])
assert ok["verified"]

forged = guard.verify_provenance(content + "!", asdict(record))
print(forged["risk"], forged["checks_failed"])
assert not forged["verified"]

other = guard.verify_provenance(content, asdict(replace(record, model_id="")))
assert not other["verified"]

res = ContradictionGuard().verify_consistency([
    Clause("minimum 12 months", "DURATION", 12, "a"),
    Clause("maximum 6 months", "DURATION", 6, "b"),
])
print(res["status"], res["verified"])
