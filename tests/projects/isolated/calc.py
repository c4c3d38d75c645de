"""Code under test of all kinds that can run in a process of its own."""

import dataclasses
import datetime
import decimal
import enum
import functools
import warnings


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Refused(ValueError):
    """An exception of the code under test."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

    def moved(self, by):
        return Point(self.x + by, self.y)

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)


class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def __len__(self):
        return len(self.items)

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        return iter(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.items.clear()

    @classmethod
    def of(cls, *items):
        stack = cls()
        for item in items:
            stack.push(item)
        return stack

    @property
    def top(self):
        return self.items[-1]


def add(a, b):
    return a + b


def mirror(value):
    return value


def sort(values):
    values.sort()


def count(to):
    yield from range(to)


def refuse(code):
    raise Refused("not that", code)


def key_of(mapping, key):
    return mapping[key]


def colour(name):
    return Colour[name.upper()]


def price():
    return decimal.Decimal("1.10") * 3


def day():
    return datetime.date(2026, 2, 28) + datetime.timedelta(days=1)


def say(text):
    print(text)


@functools.lru_cache
def square(x):
    return x * x


def warn():
    warnings.warn("this is old", DeprecationWarning)
