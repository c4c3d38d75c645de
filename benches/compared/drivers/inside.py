"""Runs all scripts with `exec` in one interpreter, as a notebook does. This is the control, because nothing is
confined."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from capture import captured
from serve import Result, Runner, serve


class Inside(Runner):
    """One interpreter with one set of variables."""

    keeps_state = True

    def __init__(self) -> None:
        os.chdir(tempfile.mkdtemp(prefix="run-"))
        self.variables: dict[str, Any] = {"__name__": "__main__"}

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        output, error = captured(lambda: exec(compile(code, "<script>", "exec"), self.variables))
        return Result(not error, output, error)


serve(Inside)
