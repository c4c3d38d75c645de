# rule: none
# checks a rule engine with compile, run and execute methods
from typing import Callable

class Engine:
    def __init__(self):
        self.rules: list[tuple[str, Callable]] = []

    def compile(self, spec: dict) -> "Engine":
        for name, (field, op, limit) in spec.items():
            test = {
                "max": lambda v, limit=limit: v <= limit,
                "min": lambda v, limit=limit: v >= limit,
                "in": lambda v, limit=limit: v in limit,
            }[op]
            self.rules.append((name, lambda rec, f=field, t=test: t(rec[f])))
        return self

    def execute(self, record: dict) -> list[str]:
        return [name for name, rule in self.rules if not rule(record)]

    def run(self, records):
        return {r["id"]: self.execute(r) for r in records}

engine = Engine().compile({
    "amount limit": ("amount", "max", 1000),
    "adult": ("age", "min", 18),
    "country": ("country", "in", {"DE", "FR"}),
})
result = engine.run([
    {"id": 1, "amount": 500, "age": 30, "country": "DE"},
    {"id": 2, "amount": 5000, "age": 17, "country": "US"},
])
print(result)
assert result == {1: [], 2: ["amount limit", "adult", "country"]}
compiled = engine.compile({})
assert compiled is engine and compiled.execute({"amount": 1, "age": 18, "country": "FR"}) == []
