# rule: none
# checks dataclasses, enums, protocols and abstract classes
from __future__ import annotations
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace, fields, FrozenInstanceError
from enum import Enum, Flag, auto
from typing import Generic, Protocol, TypeVar, NamedTuple, runtime_checkable

T = TypeVar("T")

class Color(Enum):
    RED = "r"
    BLUE = "b"

class Perm(Flag):
    READ = auto()
    WRITE = auto()
    EXEC = auto()

@dataclass(order=True, frozen=True)
class Version:
    major: int
    minor: int = 0
    tags: tuple[str, ...] = field(default=(), compare=False)

class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...

class Square(Shape):
    def __init__(self, a: float) -> None:
        self.a = a
    def area(self) -> float:
        return self.a**2

@runtime_checkable
class HasArea(Protocol):
    def area(self) -> float: ...

class Pair(NamedTuple):
    left: int
    right: int

assert Color("r") is Color.RED and Color["BLUE"].value == "b"
assert Perm.READ | Perm.EXEC in Perm.READ | Perm.WRITE | Perm.EXEC
v = Version(1, 2, ("x",))
assert replace(v, minor=3) > v and [f.name for f in fields(v)] == ["major", "minor", "tags"]
try:
    v.major = 2
except FrozenInstanceError as e:
    print("frozen:", e)
try:
    Shape()
except TypeError as e:
    print(e)
assert isinstance(Square(2), HasArea) and Pair(1, 2)._replace(left=5) == (5, 2)
