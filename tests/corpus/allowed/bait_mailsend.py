# rule: none
# checks an own message bus with connect, send and request
from collections import defaultdict

class Socket:
    """A lamp socket with a maximal wattage."""
    def __init__(self, watts):
        self.watts, self.lamp = watts, None

    def connect(self, lamp):
        if lamp > self.watts:
            raise ValueError("too strong")
        self.lamp = lamp
        return self

class Bus:
    def __init__(self):
        self.handlers = defaultdict(list)
        self.sent = []

    def connect(self, topic, handler):
        self.handlers[topic].append(handler)

    def send(self, topic, payload):
        self.sent.append((topic, payload))
        return [h(payload) for h in self.handlers[topic]]

    def request(self, topic, payload):
        first, *_ = self.send(topic, payload)
        return first

socket = Socket(60).connect(40)
assert socket.lamp == 40
try:
    Socket(60).connect(100)
except ValueError as e:
    print(e)

bus = Bus()
bus.connect("price", lambda p: p * 119 / 100)
bus.connect("price", lambda p: round(p))
assert bus.send("price", 200) == [238.0, 200]
request = bus.request("price", 100)
print(request, bus.sent)
assert request == 119.0
