"""Finds the program `qwed-mcp`, and calls it through a process that keeps running."""

import atexit
import json
import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any, Iterator, NoReturn

from ._json import encode

NAME = "qwed-mcp"

# The maximum number of nested calls. Each nested call has its own process, and signals may arrive faster than
# processes start.
NESTED_CALLS_MAX = 8


def _places() -> Iterator[Path]:
    """Yields the folders in which installers put the program of this package. The most likely folder is first."""
    yield Path(sysconfig.get_path("scripts"))
    # The folders of `pip install --user` and `pip install --target FOLDER`.
    yield Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    yield Path(__file__).resolve().parent.parent / "bin"
    # The folder of the interpreter, if the interpreter is a symlink into an environment.
    yield Path(sys.executable).parent


def find_program() -> str:
    """Returns the path of the program that was installed with this package.

    Does not search PATH, because a program there may have another version or another origin.

    Raises FileNotFoundError if the program is not found.
    """
    for folder in _places():
        program = folder / NAME
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    places = ", ".join(str(folder) for folder in dict.fromkeys(_places()))
    raise FileNotFoundError(f"{NAME} was not found in {places}; install it again: pip install --force-reinstall 'qwed-mcp>=0.3'")


def main() -> NoReturn:
    """Replaces this process by the program, with the same arguments."""
    program = find_program()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *sys.argv[1:]])


class _Ended(Exception):
    """The process ended before it replied."""


class _Process:
    """A process of the program. The first call starts it, and all threads share it.

    A call uses the process exclusively. A nested call on the same thread, from a signal handler or a finalizer, starts
    another process. Later calls reuse that process too. At most `NESTED_CALLS_MAX` calls may be nested.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        # Reentrant, because signal handlers and finalizers can run at any point.
        self._lock = threading.RLock()
        # The processes that no call uses.
        self._idle: "list[subprocess.Popen[bytes]]" = []
        self._all: "list[subprocess.Popen[bytes]]" = []
        # The current number of nested calls.
        self._nested_calls = 0

    def call(self, name: str, **arguments: Any) -> Any:
        """Returns the program's result.

        Raises ValueError if the arguments are not JSON, or if the program does not accept them. Raises RuntimeError if
        the program ended twice before it replied, or if too many calls are nested.
        """
        try:
            request = encode({"call": name, **arguments})
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the arguments cannot be written as JSON: {error}") from error
        except UnicodeEncodeError as error:
            found = f"U+{ord(error.object[error.start]):04X}"
            raise ValueError(
                f"the arguments have an unpaired surrogate, {found}, which UTF-8 cannot encode; "
                "replace it, for example with text.encode('utf-8', 'replace').decode()"
            ) from None
        with self._lock:
            outer_calls = self._nested_calls
            try:
                # Count the call before a process starts, because signals may arrive faster than a process starts.
                self._nested_calls = outer_calls + 1
                reply = self._nested_call(request)
            finally:
                self._nested_calls = outer_calls
        if "error" in reply:
            raise ValueError(reply["error"])
        return reply["result"]

    def _nested_call(self, request: bytes) -> Any:
        if self._nested_calls > NESTED_CALLS_MAX:
            raise RuntimeError(
                f"more than {NESTED_CALLS_MAX} calls of {NAME} are nested: "
                "a signal handler or a finalizer makes calls faster than they are answered"
            )
        try:
            return self._exchange(request)
        except _Ended:
            # Retry with another process, because a call has no side effects.
            try:
                return self._exchange(request)
            except _Ended:
                raise RuntimeError(f"{NAME} ended before it answered") from None

    def _exchange(self, request: bytes) -> Any:
        process = self._take()
        try:
            reply = self._ask(process, request)
        except BaseException:
            # End the process. Otherwise the next call would read the reply to this call.
            self._end(process)
            raise
        self._idle.append(process)
        return reply

    @staticmethod
    def _ask(process: "subprocess.Popen[bytes]", request: bytes) -> Any:
        assert process.stdin is not None and process.stdout is not None
        parts: "list[bytes]" = []
        try:
            waiting = memoryview(request + b"\n")
            while waiting:
                waiting = waiting[os.write(process.stdin.fileno(), waiting) :]
            while not parts or not parts[-1].endswith(b"\n"):
                parts.append(os.read(process.stdout.fileno(), 1 << 16))
                if not parts[-1]:
                    raise _Ended
        except OSError as error:
            raise _Ended from error
        return json.loads(b"".join(parts))

    def _take(self) -> "subprocess.Popen[bytes]":
        while self._idle:
            process = self._idle.pop()
            if process.poll() is None:
                return process
            self._end(process)
        # Use no buffers, because a fork would copy their content. Use a new session, so that Ctrl-C does not end the
        # program while threads wait for replies.
        process = subprocess.Popen(
            [find_program(), "python-api"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._all.append(process)
        return process

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        if process in self._all:
            self._all.remove(process)
        process.kill()
        process.communicate()

    def end(self) -> None:
        """Ends the processes that no call uses."""
        with self._lock:
            while self._idle:
                self._end(self._idle.pop())

    def forget(self) -> None:
        """Drops the processes in a forked child, because the processes belong to the parent."""
        processes = self._all
        self._begin()
        for process in processes:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()
            # Set a return code, because only the parent can wait for the process.
            process.returncode = 0


_process = _Process()
call = _process.call
atexit.register(_process.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forget)
