"""The program `qwed-mcp`: where it is, and one process of it that answers calls."""

import atexit
import json
import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any, Iterator, NoReturn

NAME = "qwed-mcp"


def _places() -> Iterator[Path]:
    """The folders in which an installer puts the program of this package, the likeliest first."""
    yield Path(sysconfig.get_path("scripts"))
    # `pip install --user`, and `pip install --target FOLDER`.
    yield Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    yield Path(__file__).resolve().parent.parent / "bin"
    # Beside the interpreter, where that is a link into an environment.
    yield Path(sys.executable).parent


def find_program() -> str:
    """Returns the path of the program that was installed with this package.

    Never one from PATH: that may be another version, or somebody else's.

    Raises FileNotFoundError where there is none.
    """
    for folder in _places():
        program = folder / NAME
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    places = ", ".join(str(folder) for folder in dict.fromkeys(_places()))
    raise FileNotFoundError(f"no program {NAME} in {places}; install it again: pip install --force-reinstall qwed-mcp")


def main() -> NoReturn:
    """Replaces this process by the program, with the arguments of this one."""
    program = find_program()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *sys.argv[1:]])


class _Process:
    """One process of the program, started at the first call, kept, and shared by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: "subprocess.Popen[bytes] | None" = None

    def call(self, name: str, **arguments: Any) -> Any:
        """Returns the program's result.

        Raises ValueError where the arguments are not what the program takes, or no JSON.
        """
        try:
            request = json.dumps({"call": name, **arguments}, allow_nan=False).encode("ascii")
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the arguments cannot be written as JSON: {error}") from error
        with self._lock:
            reply = self._ask(request)
        if "error" in reply:
            raise ValueError(reply["error"])
        return reply["result"]

    def _ask(self, request: bytes) -> Any:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            waiting = memoryview(request + b"\n")
            while waiting:
                waiting = waiting[os.write(process.stdin.fileno(), waiting) :]
            parts: "list[bytes]" = []
            while not parts or not parts[-1].endswith(b"\n"):
                parts.append(os.read(process.stdout.fileno(), 1 << 16))
                if not parts[-1]:
                    raise RuntimeError(f"{NAME} ended before it answered")
        except BaseException:
            # A reply that nobody has read would be taken for the next one's.
            self._end()
            raise
        return json.loads(b"".join(parts))

    def _running(self) -> "subprocess.Popen[bytes]":
        process = self._process
        if process is None or process.poll() is not None:
            self._end()
            # No buffers: a fork would have a copy of what is in them. A session of its own: Ctrl-C is for this
            # process, which may go on, and its threads wait for answers.
            process = subprocess.Popen(
                [find_program(), "python-api"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            self._process = process
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def end(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Leaves the process to its parent: this one is a fork of that."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()
            # It is not this one's child, so nothing is to be waited for.
            process.returncode = 0


_process = _Process()
call = _process.call
atexit.register(_process.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forget)
