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

# The most calls within one another, each with a process of its own: signals may come faster than a process starts.
NESTED_CALLS_MAX = 8


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
    raise FileNotFoundError(f"no program {NAME} in {places}; install it again: pip install --force-reinstall 'qwed-mcp>=0.3'")


def main() -> NoReturn:
    """Replaces this process by the program, with the arguments of this one."""
    program = find_program()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *sys.argv[1:]])


class _Ended(Exception):
    """The process ended before it answered."""


class _Process:
    """The program as a process, started at the first call, kept, and shared by all threads.

    A call takes the process away for as long as it is in an exchange. A call that comes within another one on the same
    thread, from a signal handler or a finalizer, finds none and has one of its own, which is kept too. At most
    `NESTED_CALLS_MAX` calls are within one another.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        # A thread can take it twice: signal handlers and finalizers come at any place.
        self._lock = threading.RLock()
        # Those that no call has taken.
        self._idle: "list[subprocess.Popen[bytes]]" = []
        self._all: "list[subprocess.Popen[bytes]]" = []
        # The calls within one another that are under way.
        self._nested_calls = 0

    def call(self, name: str, **arguments: Any) -> Any:
        """Returns the program's result.

        Raises ValueError where the arguments are not what the program takes, or no JSON, and RuntimeError where the
        program ended twice before it answered, or where too many calls are within one another.
        """
        try:
            request = json.dumps({"call": name, **arguments}, allow_nan=False, ensure_ascii=False).encode("utf-8")
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the arguments cannot be written as JSON: {error}") from error
        except UnicodeEncodeError as error:
            found = f"U+{ord(error.object[error.start]):04X}"
            raise ValueError(
                f"the arguments have half of a surrogate pair, {found}: no UTF-8 can have it; "
                "replace it, for example with text.encode('utf-8', 'replace').decode()"
            ) from None
        with self._lock:
            outer_calls = self._nested_calls
            try:
                # Before a process is started, which takes longer than signals may take to come.
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
                f"more than {NESTED_CALLS_MAX} calls of {NAME} are within one another: "
                "a signal handler or a finalizer makes calls faster than they are answered"
            )
        try:
            return self._exchange(request)
        except _Ended:
            # A call changes nothing, so another process may be asked.
            try:
                return self._exchange(request)
            except _Ended:
                raise RuntimeError(f"{NAME} ended before it answered") from None

    def _exchange(self, request: bytes) -> Any:
        process = self._take()
        try:
            reply = self._ask(process, request)
        except BaseException:
            # A reply that nobody has read would be taken for the next one's.
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
        # No buffers: a fork would have a copy of what is in them. A session of its own: Ctrl-C is for this process,
        # which may go on, and its threads wait for answers.
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
        """Ends the processes that no call has taken."""
        with self._lock:
            while self._idle:
                self._end(self._idle.pop())

    def forget(self) -> None:
        """Leaves the processes to their parent: this one is a fork of that."""
        processes = self._all
        self._begin()
        for process in processes:
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
