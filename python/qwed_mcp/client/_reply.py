"""The script in a model's reply."""

import re
from typing import List, Optional

# Fences as CommonMark has them: up to three spaces, three ticks or tildes and more, and what language it is.
_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$")
_LANGUAGES = frozenset({"", "python", "python3", "py"})


def last_code_block(reply: str) -> Optional[str]:
    """Returns the last fenced block of Python, or of no language, in a reply; None where there is none.

    A reply that was cut may have a block without an end. Its script was cut, too: it does not count.
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
