# rule: imports/importlib
# effect: writes
from importlib.abc import InspectLoader as Text
def f(): pass
f.__code__ = Text.source_to_code("open('canary', 'w').close()")
f()
