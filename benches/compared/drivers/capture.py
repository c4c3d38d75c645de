"""Captures everything that this process and its children write to standard output."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable


def captured(function: Callable[[], None]) -> tuple[str, str]:
    """Calls a function. Returns the output, and the error if the function raised one."""
    error = ""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            function()
        except BaseException as raised:  # A script may raise SystemExit.
            error = f"{type(raised).__name__}: {raised}"
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace"), error
