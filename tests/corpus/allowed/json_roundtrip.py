# rule: none
# checks JSON round trips, custom encoders and ordering
import json
from datetime import date
from decimal import Decimal
from dataclasses import dataclass, asdict

@dataclass
class Item:
    sku: str
    price: Decimal
    added: date

class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, Decimal):
            return str(o)
        if isinstance(o, date):
            return o.isoformat()
        return super().default(o)

items = [Item("a-1", Decimal("9.90"), date(2024, 1, 2)), Item("b-2", Decimal("0.10"), date(2024, 3, 4))]
text = json.dumps([asdict(i) for i in items], cls=Encoder, indent=2, sort_keys=True)
print(text)

def hook(d):
    return Item(d["sku"], Decimal(d["price"]), date.fromisoformat(d["added"]))

assert json.loads(text, object_hook=hook) == items
assert json.loads("[1.10]", parse_float=Decimal) == [Decimal("1.10")]
try:
    json.loads("{'single': 1}")
except json.JSONDecodeError as e:
    print("line", e.lineno, "col", e.colno, e.msg)
assert json.dumps({"b": 1, "a": [True, None]}, separators=(",", ":")) == '{"b":1,"a":[true,null]}'
