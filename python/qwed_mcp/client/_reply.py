"""Finds the script in a model's reply."""

import re
from typing import List, Optional

# Fences of CommonMark: up to three spaces, at least three backticks or tildes, and the language.
_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$")
_LANGUAGES = frozenset({"", "python", "python3", "py"})


def last_code_block(reply: str) -> Optional[str]:
    """Returns the last fenced block in a reply that is Python or has no language. None if no such block exists.

    Ignores a block without a closing fence, because its script was truncated.
    """
    found: Optional[str] = None
    fence, is_python = "", False
    lines: List[str] = []
    for line in reply.splitlines(keepends=True):
        if fence:
            text = line.strip()
            if text.startswith(fence) and set(text) == {fence[0]}:
                found = "".join(lines) if is_python else found
                fence = ""
            else:
                lines.append(line)
        elif opening := _OPENING.match(line.rstrip()):
            fence, is_python = opening[1], opening[2].lower() in _LANGUAGES
            lines = []
    return found
