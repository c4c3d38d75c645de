# rule: none
# checks a business workflow where subprocess is a plain variable
from dataclasses import dataclass, field

@dataclass
class Process:
    name: str
    hours: float = 0.0
    subprocesses: list["Process"] = field(default_factory=list)

    def add(self, name, hours):
        subprocess = Process(name, hours)
        self.subprocesses.append(subprocess)
        return subprocess

    def total(self):
        return self.hours + sum(subprocess.total() for subprocess in self.subprocesses)

    def run(self, depth=0):
        yield "  " * depth + f"{self.name} ({self.total():g} h)"
        for subprocess in self.subprocesses:
            yield from subprocess.run(depth + 1)

order = Process("order to cash")
billing = order.add("billing", 1.5)
billing.add("check address", 0.25)
subprocess = order.add("shipping", 2)
subprocess.add("packing", 0.75)
for line in subprocess.run():
    print(line)
assert subprocess.total() == 2.75 and order.total() == 4.5
assert [s.name for s in order.subprocesses] == ["billing", "shipping"]
print("\n".join(order.run()))
