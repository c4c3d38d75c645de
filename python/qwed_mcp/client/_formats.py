"""Converts the tests of datasets to tests of a script. Never runs anything."""

import ast
import base64
import binascii
import itertools
import json
import keyword
import math
import pickletools
import zlib
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Union

from ._script import Test

# The maximum size of LiveCodeBench's private tests after decompression, in bytes.
PRIVATE_BYTES_MAX = 256 * 1024 * 1024
# The operations of a pickle that push a string, and the other operations of a pickle of one string.
_PUSHES = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_OTHERS = frozenset({"PROTO", "FRAME", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "STOP"})
# A pickle of one string has at most these operations: PROTO, FRAME, a push, MEMOIZE, FRAME, STOP.
_OPERATIONS_MAX = 6


def tests_of(
    record: Union[str, Mapping[str, Any], Iterable[Any]], code: str = "", *, public_only: bool = False
) -> List[Test]:
    """Converts the tests of a dataset to the `tests` of a script.

    `record` is an object, or its JSON:

    - verl, APPS, TACO: `{"inputs": […], "outputs": […]}`, with `fn_name` for tests by call. If each output of a function
      is a list with one item, the item is the expected value, as in APPS.
    - LiveCodeBench: a row with `public_test_cases`, `private_test_cases` and `metadata`, or its `input_output`.
    - SandboxFusion: `{"test": […]}` or a list of `{"input": {"stdin": …}, "output": {"stdout": …}}`.
    - verifiers: `{"test_cases": […]}` or a list of objects with `type` (`stdin_stdout` or `function_call`), `fn_name`,
      `input` and `output`.

    If `code` defines the class `Solution` with the function, the tests call the function as a method of `Solution`.
    `public_only` accepts a row of LiveCodeBench without private tests. Models have often seen the public tests.

    Raises ValueError if the format is unknown, if a test is incomplete, or if the record has no tests.
    """
    try:
        tests = _tests(record, code, public_only)
    except (AttributeError, KeyError, MemoryError, OverflowError, RecursionError, TypeError) as error:
        raise ValueError(f"the tests cannot be read: {error!r}") from error
    if not tests:
        raise ValueError("there are no tests")
    return tests


def _tests(written: Any, code: str, public_only: bool) -> List[Test]:
    if isinstance(written, str):
        written = json.loads(written)
    if not isinstance(written, Mapping):
        return [_case(case, code) for case in _list(written, "tests")]
    if "public_test_cases" in written:
        return _live_code_bench(written, code, public_only)
    for key in ("input_output", "test_cases", "test"):
        if key in written:
            return _tests(written[key], code, public_only)
    if "inputs" not in written or "outputs" not in written:
        raise ValueError(f"unknown format of tests, with the keys {', '.join(sorted(map(str, written)))}")
    inputs, outputs = _list(written["inputs"], "inputs"), _list(written["outputs"], "outputs")
    if len(inputs) != len(outputs):
        raise ValueError(f"{len(inputs)} inputs and {len(outputs)} outputs")
    name = written.get("fn_name")
    if name is not None and all(isinstance(output, list) and len(output) == 1 for output in outputs):
        outputs = [output[0] for output in outputs]
    return [_test(name, input, output, code) for input, output in zip(inputs, outputs)]


def _live_code_bench(row: Mapping[str, Any], code: str, public_only: bool) -> List[Test]:
    metadata = row.get("metadata") or {}
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    written = row.get("private_test_cases")
    private = _cases(written) if written else []
    if not private and not public_only:
        raise ValueError("the row has no private tests; public_only=True takes the public ones alone")
    cases = [*_cases(row["public_test_cases"]), *private]
    return [_live_code_bench_case(case, metadata.get("func_name"), code) for case in cases]


def _live_code_bench_case(case: Mapping[str, Any], name: Optional[str], code: str) -> Test:
    kind = case.get("testtype", "stdin" if name is None else "functional")
    if kind not in ("stdin", "functional"):
        raise ValueError(f"unknown testtype {kind!r}")
    if kind == "functional" and name is None:
        raise ValueError("a functional test needs func_name in the metadata")
    return _test(name if kind == "functional" else None, case["input"], case["output"], code)


def _cases(written: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(written, str):
        return _list(written, "test cases")
    try:
        return _list(json.loads(written), "test cases")
    except json.JSONDecodeError:
        pass
    try:
        unpacking = zlib.decompressobj()
        packed = unpacking.decompress(base64.b64decode(written), PRIVATE_BYTES_MAX + 1)
        if len(packed) > PRIVATE_BYTES_MAX:
            raise ValueError(f"the private tests have more than {PRIVATE_BYTES_MAX} bytes")
        if not unpacking.eof:
            raise ValueError("the private tests are truncated")
        return _list(json.loads(_pickled_text(packed)), "test cases")
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the private tests cannot be read: {error}") from error


def _pickled_text(packed: bytes) -> str:
    """Returns the string of a pickle. Never unpickles, because a short pickle can run code or use much memory."""
    texts = []
    for operation, argument, _ in itertools.islice(pickletools.genops(packed), _OPERATIONS_MAX):
        if operation.name in _PUSHES:
            texts.append(argument)
        elif operation.name not in _OTHERS:
            raise ValueError(f"the private tests are not a pickled text, but have the operation {operation.name}")
    if len(texts) != 1 or operation.name != "STOP":
        raise ValueError("the private tests are not one pickled text")
    return str(texts[0])


def _case(case: Mapping[str, Any], code: str) -> Test:
    if not isinstance(case, Mapping) or not {"input", "output"} <= set(case):
        raise ValueError("unknown format of a test: it has no input and output")
    input, output = case["input"], case["output"]
    if isinstance(input, Mapping) and isinstance(output, Mapping):
        others = (set(input) - {"stdin"}) | (set(output) - {"stdout"})
        if others:
            raise ValueError(f"a test with files is not supported: {', '.join(sorted(map(str, others)))}")
        return {"stdin": _text(input.get("stdin", "")), "stdout": _text(output["stdout"])}
    name = case.get("fn_name")
    kind = case.get("type", "stdin_stdout" if name is None else "function_call")
    if kind not in ("stdin_stdout", "function_call"):
        raise ValueError(f"unknown type of a test: {kind!r}")
    if kind == "function_call" and name is None:
        raise ValueError("a test of the type function_call needs fn_name")
    return _test(name if kind == "function_call" else None, input, output, code)


def _test(name: Optional[str], input: Any, output: Any, code: str) -> Test:
    if name is None:
        return {"stdin": _text(input), "stdout": _text(output)}
    if not isinstance(name, str) or not all(map(_is_name, name.split("."))):
        raise ValueError(f"{name!r} is not the name of a function")
    # A text input has one JSON argument on each line. Other inputs are lists of arguments.
    if isinstance(input, str):
        arguments = [json.loads(line) for line in input.split("\n") if line.strip()]
    elif isinstance(input, (list, tuple)):
        arguments = list(input)
    else:
        raise ValueError(f"the input of {name} is a text or a list of arguments, not {type(input).__name__}")
    value = json.loads(output) if isinstance(input, str) and isinstance(output, str) else output
    for part in (*arguments, value):
        _require_plain(part)
    function = f"Solution().{name}" if _is_method(name, code) else name
    return {"call": f"{function}({', '.join(map(repr, arguments))})", "value": value}


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _is_method(name: str, code: str) -> bool:
    """Returns whether `name` is a method of the class `Solution`. False if the module defines a function `name`."""
    try:
        module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = {node.name for node in module.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    classes = {node.name for node in module.body if isinstance(node, ast.ClassDef)}
    return "Solution" in classes and name not in functions


def _require_plain(value: Any) -> None:
    """Raises ValueError unless JSON can represent the value and its `repr` is a Python literal."""
    if isinstance(value, (list, tuple)):
        for item in value:
            _require_plain(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"a key of a test is a text, not {type(key).__name__}")
            _require_plain(item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a test has the number {value}, which JSON cannot have")
    elif value is not None and type(value) not in (bool, int, float, str):
        raise ValueError(f"a test has a value of the type {type(value).__name__}, which JSON cannot have")


def _list(written: Any, name: str) -> List[Any]:
    if isinstance(written, (str, bytes, Mapping)):
        raise ValueError(f"the {name} are a list, not {type(written).__name__}")
    return list(written)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    # A list contains the lines of a text.
    if isinstance(value, (list, tuple)) and value:
        return "\n".join(map(str, value))
    raise ValueError(f"the input or output of a test is a text, not {value!r:.50}")
