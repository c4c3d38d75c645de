# rule: none
# takes attributes and calls methods by their names, of its own objects and of plain modules
import math
from collections import namedtuple
from operator import attrgetter, methodcaller

Event = namedtuple("Event", "time code x")
events = [Event(2, "b", 1.5), Event(1, "a", 2.5)]
print(sorted(events, key=attrgetter("time", "code")), max(events, key=attrgetter("x")))
print(list(map(attrgetter("x.real"), events)), list(map(methodcaller("_asdict"), events)))

class Host:
    def __init__(self, os):
        self.os = os

by_system = attrgetter("os")
print([by_system(host) for host in sorted([Host("linux"), Host("bsd")], key=by_system)])
print(attrgetter("pi")(math), methodcaller("upper")("a"))
