"""Finds the script in a model's reply."""

import io
import re
from typing import List, Optional

# Fences of CommonMark: up to three spaces, at least three backticks or tildes, and the language. The text after
# backticks has no backtick.
_OPENING = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^ \t]*)")
_CLOSING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")
_LANGUAGES = frozenset({"", "python", "python3", "py"})


def last_code_block(reply: str) -> Optional[str]:
    """Returns the last fenced block in a reply that is Python or has no language. None if no such block exists.

    Ignores a block without a closing fence, because its script was truncated.
    """
    found: Optional[str] = None
    indent, fence, is_python = 0, "", False
    lines: List[str] = []
    # Lines end only at line feeds and carriage returns. `splitlines` would also split strings in the script.
    for line in io.StringIO(reply, newline=""):
        text = line.rstrip("\r\n")
        if fence:
            closing = _CLOSING.match(text)
            if closing and closing[1].startswith(fence):
                found = "".join(lines) if is_python else found
                fence = ""
            else:
                # The block is indented like its opening fence.
                lines.append(line[min(indent, len(text) - len(text.lstrip(" "))) :])
        elif opening := _OPENING.match(text):
            indent, fence, is_python = len(opening[1]), opening[2], opening[3].lower() in _LANGUAGES
            lines = []
    return found
