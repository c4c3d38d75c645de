# rule: none
# checks regular expressions with named groups, lookaheads and substitution
import re

LOG = """\
2024-01-05 12:00:01 INFO  user=ann  took=12ms
2024-01-05 12:00:02 ERROR user=bob  took=1200ms
2024-01-05 12:00:09 INFO  user=ann  took=7ms
"""
pattern = re.compile(
    r"""^(?P<date>\d{4}-\d\d-\d\d)\s
        (?P<time>[\d:]+)\s+
        (?P<level>INFO|ERROR)\s+
        user=(?P<user>\w+)\s+
        took=(?P<ms>\d+)ms$""",
    re.M | re.X,
)
rows = [m.groupdict() for m in pattern.finditer(LOG)]
assert len(rows) == 3
total = sum(int(r["ms"]) for r in rows if r["user"] == "ann")
print("ann:", total, "ms")
assert total == 19

assert re.sub(r"(\d+)", lambda m: str(int(m[1]) * 2), "a1b22") == "a2b44"
assert re.split(r"[;,]\s*", "x, y;z") == ["x", "y", "z"]
assert re.search(r"(?<=\$)\d+(?=\.)", "costs $45.10").group() == "45"
assert re.fullmatch(r"(?i)hello", "HeLLo")
assert re.escape("a.b*c") == r"a\.b\*c"
pw = re.compile(r"^(?=.*\d)(?=.*[A-Z]).{8,}$")
print([bool(pw.match(p)) for p in ("short1A", "longenough1A", "nodigitsHERE")])
