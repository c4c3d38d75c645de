# rule: files/open
# effect: writes
from __future__ import annotations
import typing
def area(w: open("canary", "w").close()): return w
typing.get_type_hints(area)
