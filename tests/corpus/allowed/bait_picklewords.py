# rule: none
# compares serialised sizes with dumps only and talks about loads in text
import json
import pickle
import sys
from array import array

WARNING = "Never call pickle.loads(data) or pickle.load(file) on untrusted input; marshal.loads is as bad."
data = {"ids": list(range(500)), "name": "sample", "flags": [True, None, 1.5]}

sizes = {
    "json": len(json.dumps(data).encode()),
    "pickle0": len(pickle.dumps(data, protocol=0)),
    "pickle5": len(pickle.dumps(data, protocol=5)),
    "array": len(array("H", data["ids"]).tobytes()),
    "getsizeof": sys.getsizeof(data["ids"]),
}
for kind, size in sorted(sizes.items(), key=lambda kv: kv[1]):
    print(f"{kind:<10}{size:>6}")
assert sizes["pickle5"] < sizes["json"] and sizes["array"] == 1000

class Truck:
    capacity = 10

    def load(self, crates):
        return -(-crates // self.capacity)

    def loads(self, *orders):
        return [self.load(n) for n in orders]

pick = Truck()
assert pick.loads(5, 10, 11) == [1, 1, 2]
assert json.loads(json.dumps(data)) == data
print(len(WARNING.split("loads")) - 1, "warnings")
try:
    pickle.dumps(lambda: None)
except (pickle.PicklingError, AttributeError) as e:
    print("cannot pickle:", e)
