import datetime
import decimal
import math

import pytest

import calc
from calc import Colour, Point, Refused, Stack, add


@pytest.mark.parametrize("value", [
    None, True, 0, -1, 2 ** 200, 0.1, math.inf, "text", "\ud800", b"\x00\xff", bytearray(b"x"), 1 + 2j, [1, [2, (3, {4})]],
    {"a": {1: 2}}, frozenset({1}), range(1, 9, 2), decimal.Decimal("1.50"), datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime.timedelta(days=-1, microseconds=1),
])
def test_plain_data_keeps_its_type_and_value(value):
    found = calc.mirror(value)
    assert type(found) is type(value) and found == value


def test_numbers():
    assert add(2, 3) == 5
    assert calc.square(7) == 49
    assert add(0.1, 0.2) == pytest.approx(0.3)
    assert calc.price() == decimal.Decimal("3.30")
    assert calc.day() == datetime.date(2026, 3, 1)


def test_an_argument_is_changed_in_place():
    values = [3, 1, 2]
    calc.sort(values)
    assert values == [1, 2, 3]


def test_a_generator():
    assert list(calc.count(3)) == [0, 1, 2]
    numbers = calc.count(2)
    assert next(iter(numbers)) == 0


def test_an_object_has_attributes_and_methods():
    point = Point(1, y=2)
    assert (point.x, point.y) == (1, 2)
    assert point.moved(3).x == 4
    assert (point + Point(1, 1)).y == 3
    assert isinstance(point, Point) and not isinstance(point, Stack)
    point.x = 9
    assert point.moved(1).x == 10


def test_an_object_is_a_container():
    with Stack() as stack:
        stack.push(1)
        stack.push("two")
        assert len(stack) == 2 and 1 in stack and 3 not in stack
        assert list(stack) == [1, "two"] and stack[1] == "two"
        assert stack.top == "two"
    assert len(stack) == 0
    assert list(Stack.of(1, 2)) == [1, 2]


def test_exceptions():
    with pytest.raises(Refused, match="not that") as caught:
        calc.refuse(7)
    assert caught.value.code == 7
    with pytest.raises(ValueError):
        calc.refuse(7)
    with pytest.raises(KeyError):
        calc.key_of({}, "none")
    with pytest.raises(TypeError):
        add(1, "2")


def test_members_of_an_enumeration():
    assert calc.colour("red") == Colour.RED
    assert calc.colour("red") != Colour.GREEN
    assert calc.colour("green").value == 2
    assert calc.colour("green").name == "GREEN"


def test_output(capsys):
    calc.say("hello")
    assert capsys.readouterr().out == "hello\n"


def test_warnings():
    with pytest.warns(DeprecationWarning, match="old"):
        calc.warn()
