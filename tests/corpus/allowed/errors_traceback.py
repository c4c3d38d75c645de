# rule: none
# checks traceback texts, warnings and exception chaining
import sys
import traceback
import warnings

def outer():
    try:
        inner()
    except KeyError as e:
        raise ValueError("bad config") from e

def inner():
    return {}["missing"]

try:
    outer()
except ValueError as err:
    text = traceback.format_exc()
    print(text.splitlines()[-1])
    assert "KeyError: 'missing'" in text and "direct cause" in text
    assert isinstance(err.__cause__, KeyError)
    names = [f.name for f in traceback.extract_tb(err.__traceback__)]
    assert names[-1] == "outer"
    print(traceback.format_exception_only(type(err), err))
    assert sys.exc_info()[0] is ValueError

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old api", DeprecationWarning, stacklevel=2)
assert len(caught) == 1 and issubclass(caught[0].category, DeprecationWarning)

try:
    raise ExceptionGroup("many", [ValueError(1), TypeError("x")])
except* TypeError as eg:
    print("type errors:", eg.exceptions)
except* ValueError as eg:
    print("value errors:", eg.exceptions)
