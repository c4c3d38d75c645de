"""A script, and the line of JSON that requests its verification."""

import base64
import json
import math
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, TypedDict, Union

from .._json import encode

# The maximum size of a line, in bytes.
LINE_BYTES_MAX = 96 * 1024 * 1024


class Test(TypedDict, total=False):
    """A test of a script: either its standard input and its expected output, or a call and its expected value.

    `call` is an expression that is evaluated after the script. `value` is the expected value, of a JSON type. A list in
    `value` stands for a list or a tuple. `check` is `equal` (the default), `isclose`, `set` or `unordered`.
    """

    stdin: str
    stdout: str
    call: str
    value: Any
    check: str


class Expect(TypedDict, total=False):
    """The expected output of a script."""

    stdout: str


# The content of an input: a string, bytes, or `{"json": value}`. The script gets a JSON value as a Python object.
Input = Union[str, bytes, Mapping[str, Any]]


@dataclass(frozen=True)
class Script:
    """A script, and the criteria by which it is judged.

    `expect` is the expected output, as a string or as `{"stdout": …}`. `tests` are tests of the same script: `{"stdin":
    …, "stdout": …}`, a pair of these strings, or `{"call": …, "value": …, "check": …}`. Each test is a separate run.
    Without `expect` and `tests`, nothing is judged, and `passed` of the result is None.

    The result has the same `id` and `meta`. `meta` may be any object, and never leaves this process. `timeout` is in
    seconds, `memory_mb` in MiB. `inputs` are files that the script may read in each run, by plain names:
    `{"orders.csv": "a,b\\n1,2\\n"}`. The script reads them as `open("orders.csv")` or `inputs["orders.csv"]`.
    """

    code: str
    id: Optional[str] = None
    stdin: Optional[str] = None
    expect: "Optional[Union[str, Expect]]" = None
    tests: "Optional[Iterable[Union[Test, Tuple[str, str]]]]" = None
    timeout: Optional[float] = None
    memory_mb: Optional[int] = None
    meta: Any = field(default=None, compare=False)
    inputs: "Optional[Mapping[str, Input]]" = None


# An item of `map`: a script, only its code, or a mapping of its fields.
ScriptLike = Union[Script, str, Mapping[str, Any]]


def script_of(item: ScriptLike) -> Script:
    """Converts an item of `map` to a script.

    Raises TypeError if the item is not a script, or has an unknown field.
    """
    if isinstance(item, Script):
        return item
    if isinstance(item, str):
        return Script(item)
    if isinstance(item, Mapping):
        return Script(**item)
    raise TypeError(f"a script is a string, a Script or a mapping with 'code', not {type(item).__name__}")


@dataclass(frozen=True)
class Request:
    """The line that requests a script."""

    line: bytes
    # The timeout of one run in seconds. None if the line sets no timeout. `runs` is the number of runs.
    timeout: Optional[float]
    runs: int


def request_of(script: Script) -> Request:
    """Returns the line that requests a script.

    Raises ValueError if the program would reject the line, and TypeError if a field has the wrong type.
    """
    _check_text("code", script.code)
    fields: Dict[str, Any] = {"code": script.code}
    if script.stdin is not None:
        _check_text("stdin", script.stdin)
        fields["stdin"] = script.stdin
    if script.expect is not None:
        fields["expect"] = _expect(script.expect)
    if script.inputs is not None:
        fields["inputs"] = _inputs(script.inputs)
    tests = None
    if script.tests is not None:
        tests = [_test(number, test) for number, test in enumerate(_listed(script.tests), 1)]
        fields["tests"] = tests
    if script.timeout is not None:
        fields["timeout"] = _seconds(script.timeout)
    if script.memory_mb is not None:
        fields["memory_mb"] = _whole("memory_mb", script.memory_mb)
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    if len(text) > LINE_BYTES_MAX:
        raise ValueError(f"the script with its inputs and tests is {len(text)} bytes of JSON; the maximum is {LINE_BYTES_MAX}")
    return Request(text + b"\n", script.timeout, len(tests) if tests else 1)


def _check_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a string, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"U+{ord(value[error.start]):04X}"
        raise ValueError(
            f"{name} has an unpaired surrogate, {found}, at position {error.start}, which UTF-8 cannot encode; "
            f"replace it, for example with {name}.encode('utf-8', 'replace').decode()"
        ) from None
    return value


def _inputs(inputs: object) -> Dict[str, Any]:
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs is a mapping of file names, not {type(inputs).__name__}")
    return {_check_text("a name in inputs", name): _input(name, content) for name, content in inputs.items()}


def _input(name: str, content: object) -> object:
    if isinstance(content, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(content).decode("ascii")}
    if isinstance(content, Mapping) and set(content) == {"json"}:
        return {"json": _json(f"inputs[{name!r}]", content["json"])}
    if not isinstance(content, str):
        raise TypeError(f"inputs[{name!r}] is a string, bytes or {{'json': value}}, not {type(content).__name__}")
    return _check_text(f"inputs[{name!r}]", content)


def _expect(expect: "Union[str, Expect]") -> Dict[str, str]:
    if isinstance(expect, str):
        return {"stdout": _check_text("expect", expect)}
    if not isinstance(expect, Mapping) or set(expect) != {"stdout"}:
        raise TypeError("expect is a string, or {'stdout': string}")
    return {"stdout": _check_text("expect['stdout']", expect["stdout"])}


def _listed(tests: object) -> List[Any]:
    if isinstance(tests, (str, bytes, Mapping)) or not isinstance(tests, Iterable):
        raise TypeError(f"tests is a list of tests, not {type(tests).__name__}")
    return list(tests)


def _test(number: int, test: object) -> Dict[str, Any]:
    if isinstance(test, Mapping) and {"call", "value"} <= set(test) <= {"call", "value", "check"}:
        texts = {name: _check_text(f"{name} of test {number}", text) for name, text in test.items() if name != "value"}
        return {**texts, "value": _json(f"value of test {number}", test["value"])}
    if isinstance(test, Mapping) and set(test) <= {"stdin", "stdout"}:
        pairs = dict(test)
    elif isinstance(test, (tuple, list)) and len(test) == 2:
        pairs = {"stdin": test[0], "stdout": test[1]}
    else:
        raise TypeError(
            f"test {number} is {{'stdin': string, 'stdout': string}}, a pair of these, or {{'call': string, 'value': value}}"
        )
    return {name: _check_text(f"{name} of test {number}", value) for name, value in pairs.items()}


def _json(name: str, value: object) -> object:
    """Returns the value unchanged, if it can be sent as JSON.

    Raises ValueError if JSON cannot represent a number or text, and TypeError if JSON cannot represent a type or a key.
    """
    try:
        encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from None
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"timeout is a number of seconds, not {type(value).__name__}")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"timeout is a number of seconds above 0, not {seconds}")
    return value


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} is a number above 0, not {value}")
    return value
