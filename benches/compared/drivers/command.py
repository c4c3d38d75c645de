"""Runs each script with a command: plain Python, bubblewrap or firejail. Each run gets a new folder."""

from __future__ import annotations

import subprocess
import tempfile

from serve import Result, Runner, argument, serve


class Command(Runner):
    """A command line with the placeholders `{code}` and `{scratch}`."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv

    def run(self, code: str, timeout_s: float, keep: bool) -> Result:
        with tempfile.TemporaryDirectory(prefix="run-") as scratch:
            argv = [part.replace("{scratch}", scratch) if part != "{code}" else code for part in self.argv]
            try:
                done = subprocess.run(argv, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                return Result(False, (error.stdout or b"").decode(errors="replace"), "timed out")
        return Result(done.returncode == 0, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


serve(lambda: Command(argument()["argv"]))
