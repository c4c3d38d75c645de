"""Encodes values as JSON. Never changes a value."""

import json
from typing import Any


def encode(value: Any) -> bytes:
    """Returns the value as JSON in UTF-8.

    Raises TypeError if JSON lacks the type of a value or of a dictionary's key, ValueError if JSON lacks a number or if
    UTF-8 lacks a character, and RecursionError if the value is nested too deeply.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    # Check the types of keys here, because `json.dumps` writes the key 1 as "1". `json.dumps` has rejected circular
    # references, so this loop ends.
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            for key in item:
                if not isinstance(key, str):
                    raise TypeError(f"a key of a dictionary is a string, not {type(key).__name__}")
            rest.extend(item.values())
        elif isinstance(item, (list, tuple)):
            rest.extend(item)
    return text
