# rule: none
# checks a door state machine with open, close and lock
from enum import Enum

class State(Enum):
    OPEN = "open"
    CLOSED = "closed"
    LOCKED = "locked"

class Door:
    def __init__(self):
        self.state = State.CLOSED
        self.history = []

    def _to(self, allowed, new):
        if self.state not in allowed:
            raise RuntimeError(f"cannot go from {self.state.value} to {new.value}")
        self.history.append((self.state, new))
        self.state = new
        return self

    def open(self):
        return self._to({State.CLOSED}, State.OPEN)

    def close(self):
        return self._to({State.OPEN}, State.CLOSED)

    def lock(self):
        return self._to({State.CLOSED}, State.LOCKED)

    def unlock(self):
        return self._to({State.LOCKED}, State.CLOSED)

door = Door()
door.open().close().lock().unlock().open()
assert door.state is State.OPEN and len(door.history) == 5
for bad in (door.open, door.lock):
    try:
        bad()
    except RuntimeError as e:
        print(e)
    else:
        raise AssertionError("transition should fail")
is_open = [s is State.OPEN for _, s in door.history]
print(is_open)
