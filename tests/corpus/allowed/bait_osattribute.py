# rule: none
# checks a device inventory with os, system and platform attributes
from collections import Counter

class Device:
    def __init__(self, name, os, version, system="x86"):
        self.name = name
        self.os = os
        self.version = tuple(map(int, version.split(".")))
        self.system = system

    def supports(self, os, minimum):
        return self.os == os and self.version >= minimum

devices = [
    Device("laptop", "linux", "6.5.1"),
    Device("phone", "android", "13.0", system="arm"),
    Device("server", os="linux", version="5.15.0"),
    Device("tablet", "android", "9.1", system="arm"),
]
os = Counter(d.os for d in devices)
print(os.most_common())
assert os["linux"] == 2 and os.get("windows", 0) == 0

by_system = {}
for d in devices:
    by_system.setdefault(d.system, []).append(d.name)
assert by_system == {"x86": ["laptop", "server"], "arm": ["phone", "tablet"]}
ok = [d.name for d in devices if d.supports("linux", (6, 0)) or d.supports(os="android", minimum=(10,))]
print(ok)
assert ok == ["laptop", "phone"]
assert max(devices, key=lambda d: d.version).os == "android"
