# rule: none
# checks data against a schema with the QWED SchemaVerifier
import json
from qwed_new.core.schema_verifier import SchemaVerifier

schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age"],
}
verifier = SchemaVerifier()
good = json.loads('{"name": "Ada", "age": 36, "tags": ["math"]}')
bad = {"name": "Bob", "age": "thirty"}

for data in (good, bad):
    res = verifier.verify(data, schema)
    valid = res.developer_fields["is_valid"]
    print(data["name"], res.status.value, valid)
    for issue in res.developer_fields["issues"]:
        print("   ", issue)
assert verifier.verify(good, schema).developer_fields["is_valid"]
assert not verifier.verify(bad, schema).developer_fields["is_valid"]
