# rule: none
# checks a generic stack with overloads and typed dictionaries
from typing import Generic, TypeVar, Iterator, Optional, TypedDict, Literal, get_type_hints, Union, Final

T = TypeVar("T")
MODE: Final = "strict"

class Stack(Generic[T]):
    def __init__(self, *items: T) -> None:
        self._items: list[T] = list(items)

    def push(self, item: T) -> "Stack[T]":
        self._items.append(item)
        return self

    def peek(self) -> Optional[T]:
        return self._items[-1] if self._items else None

    def __iter__(self) -> Iterator[T]:
        return reversed(self._items)

class Movie(TypedDict, total=False):
    title: str
    year: int

def rate(m: Movie, how: Literal["up", "down"] = "up") -> Union[int, float]:
    return m["year"] / 2 if how == "down" else m["year"] * 2

s = Stack[int](1, 2).push(3)
assert list(s) == [3, 2, 1] and s.peek() == 3 and Stack().peek() is None
m: Movie = {"title": "Up", "year": 2009}
assert rate(m) == 4018 and rate(m, "down") == 1004.5
print(get_type_hints(rate))
print(Stack.__parameters__, Movie.__annotations__)
