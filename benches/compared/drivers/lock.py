"""Runs each script under sandlock, in a new process and a new folder."""

from __future__ import annotations

import tempfile
from typing import Any

from serve import Result, Runner, argument, serve


class Sandlock(Runner):
    """The sandlock library, and the interpreter with the folders that it needs."""

    def __init__(self, interpreter: str, readable: list[str]) -> None:
        import sandlock

        self.library: Any = sandlock
        self.interpreter, self.readable = interpreter, readable

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        with tempfile.TemporaryDirectory(prefix="run-") as scratch:
            sandbox = self.library.Sandbox(
                fs_readable=self.readable, fs_writable=[scratch], cwd=scratch, clean_env=True, max_memory="1G",
                max_processes=64, max_open_files=256, no_coredump=True,
            )
            done = sandbox.run([self.interpreter, "-c", code], timeout=timeout_s)
        error = (done.error or "") + done.stderr.decode(errors="replace")
        return Result(done.success, done.stdout.decode(errors="replace"), error)


serve(lambda: Sandlock(**argument()))
