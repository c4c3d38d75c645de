# rule: none
# checks an event emitter with events named open, exec, kill and system
from collections import defaultdict
from functools import partial

class Emitter:
    def __init__(self):
        self._handlers = defaultdict(list)

    def on(self, event, fn=None):
        if fn is None:
            return partial(self.on, event)
        self._handlers[event].append(fn)
        return fn

    def emit(self, event, *args):
        return [fn(*args) for fn in list(self._handlers[event])]

    def remove(self, event, fn):
        self._handlers[event].remove(fn)

bus = Emitter()
log = []

@bus.on("open")
def open(name):
    log.append(f"open {name}")

@bus.on("exec")
def exec(code):
    log.append(f"exec {len(code)}")
    return "import os; os.system('x')" in code

@bus.on("kill")
def kill(pid, signal=9):
    log.append(f"kill {pid} {signal}")

bus.on("system", lambda s: bus.emit("kill", s))
bus.emit("open", "door")
flags = bus.emit("exec", "import os; os.system('x')")
bus.emit("system", 42)
bus.remove("open", open)
bus.emit("open", "window")
print(log)
assert log == ["open door", "exec 25", "kill 42 9"] and flags == [True]
