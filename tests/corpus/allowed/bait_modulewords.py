# rule: none
# checks plain variables with the names of modules: signal, pickle, socket, select, resource, shelve
import math

signal = [math.sin(2 * math.pi * 5 * t / 100) for t in range(100)]
power = sum(s * s for s in signal) / len(signal)
assert abs(power - 0.5) < 1e-12

class Jar:
    def __init__(self):
        self.contents = []

    def pickle(self, vegetable):
        self.contents.append(f"pickled {vegetable}")
        return self

pickle = Jar().pickle("cucumber").pickle("onion")
assert pickle.contents[1] == "pickled onion"
loads = len(pickle.contents)

def select(items, http=None):
    return [i for i in items if http is None or http in i]

socket = {"voltage": 230, "fork": "type F"}
glob = {"radius": 6371}
resource = {"wood": 3, "stone": 5}
shelve = ["book A", "book B"]
pty, ctypes, marshal = 1, 2, 3

print(select(shelve, http="A"), socket["voltage"], glob["radius"], resource)
assert select(shelve, http="B") == ["book B"]
assert pty + ctypes + marshal == 6 and loads == 2
site, code, test, token, trace = "home", 1, 2, 3, 4
tempfile = [20.5, 21.0]
assert sum(tempfile) / 2 == 20.75 and site == "home" and code + test + token + trace == 10
