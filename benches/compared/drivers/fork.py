"""Runs each script in a fork of an interpreter that has imported the packages. Nothing is confined, so no warm
interpreter with a sandbox can be faster."""

from __future__ import annotations

import importlib
import os
import select
import signal
import sys
import tempfile
import time

from serve import Result, Runner, serve

PACKAGES = ("json", "statistics", "numpy", "sympy", "z3")


class Fork(Runner):
    """An interpreter with its packages."""

    def __init__(self) -> None:
        for package in PACKAGES:
            importlib.import_module(package)

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            run_here(code, writer)
        os.close(writer)
        output, is_late = read_until(reader, time.monotonic() + timeout_s)
        os.close(reader)
        if is_late:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        return Result(status == 0, output, "timed out" if is_late else "")


def run_here(code: str, writer: int) -> None:
    """Runs a script in the forked child. Then the child exits."""
    status = 1
    try:
        os.dup2(writer, 1)
        os.close(writer)
        os.chdir(tempfile.mkdtemp(prefix="run-"))
        exec(compile(code, "<script>", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        status = 0
    finally:
        os._exit(status)


def read_until(reader: int, deadline: float) -> tuple[str, bool]:
    """Reads until the end of output. Returns the text, and whether the deadline passed first."""
    chunks = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(reader, 1 << 18) if ready else b""
        if not chunk:
            return b"".join(chunks).decode(errors="replace"), not ready
        chunks.append(chunk)


serve(Fork)
