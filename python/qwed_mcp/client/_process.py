"""A process of `qwed-mcp run --batch -` that threads share. Restarts the process after a failure, and retries lines.

One thread writes lines, and another thread reads answers. The threads refer to `BatchProcess` and not to the verifier,
so the process of a verifier ends when the verifier is garbage-collected.
"""

import atexit
import itertools
import json
import os
import select
import subprocess
import threading
import time
import weakref
from collections import deque
from concurrent.futures import Future
from typing import Any, Deque, Dict, List, Mapping, Optional

from ._errors import ClosedError, StartError
from ._result import Result, named, result_of, without_verdict
from ._script import Request

# If no answer arrives for this time after the timeouts of all lines, the process counts as stuck.
SILENCE_SECONDS_MAX = 60.0
# The time between SIGTERM and SIGKILL for a process that must end.
ENDING_SECONDS_MAX = 5.0
# The interval at which the reader checks these timeouts.
TICK_SECONDS = 1.0
# The maximum number of attempts for a line, so that a script that kills its process kills at most two processes.
ATTEMPTS_MAX = 2
# The maximum size of the stored end of the process's standard error. Messages contain it.
STDERR_BYTES_MAX = 8 * 1024
READ_BYTES = 1 << 16
# The exit code of the program if its arguments are invalid, or if it cannot run on this machine.
UNUSABLE = 2


class _Line:
    """A line that waits for its answer."""

    __slots__ = ("future", "id", "lost", "meta", "request", "seconds")

    def __init__(self, request: Request, seconds: float, id: str, meta: Any) -> None:
        self.request = request
        self.seconds = seconds
        self.id = id
        self.meta = meta
        # The number of processes that died after they may have begun this line.
        self.lost = 0
        self.future: "Future[Result]" = Future()

    def answer(self, result: Result) -> None:
        # This returns False if the caller has cancelled.
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(named(result, self.id, self.meta))

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def give_up(self, reason: str) -> None:
        self.answer(without_verdict(self.id, "infra_error", reason, max(self.lost, 1), self.meta))


class _Run:
    """One start of the program."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.process = process
        self.stdin = process.stdin.fileno()
        self.stdout = process.stdout.fileno()
        self.stderr = process.stderr.fileno()
        self.said = b""
        # The numbers of the lines. Requests have no ids, so answers contain these numbers.
        self.lines = itertools.count(1)
        self.has_ended = False
        self.has_answered = False
        self.was_stuck = False
        self.last_sign = time.monotonic()
        self.told_to_end: Optional[float] = None
        self.threads: List[threading.Thread] = []

    def tell_to_end(self) -> None:
        """Sends SIGTERM to the process. Takes no lock, so the garbage collector may call this method at any point."""
        if self.told_to_end is None:
            self.told_to_end = time.monotonic()
            self.process.terminate()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


class BatchProcess:
    """The process. Submitting a line starts the process if it is not running."""

    def __init__(self, command: List[str], environment: Optional[Mapping[str, str]], workers: int, timeout: float) -> None:
        self._command = command
        self._environment = environment
        self._timeout = timeout
        self._workers = workers
        # The maximum number of lines in flight. It keeps all workers busy, and limits the lines that a crash loses.
        self._sent_max = max(64, 8 * workers)
        self._numbers = itertools.count(1)
        self._is_closed = False
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        # Reentrant, because signal handlers, finalizers and forks can happen at any point.
        self._changed = threading.Condition(threading.RLock())
        self._waiting: Deque[_Line] = deque()
        self._sent: Dict[str, _Line] = {}
        self._run: Optional[_Run] = None

    def submit(self, request: Request, id: Optional[str], meta: Any) -> "Future[Result]":
        """Submits a line, and returns its future result.

        Raises ClosedError after `close`, and StartError if the program cannot be started.
        """
        seconds = (request.timeout or self._timeout) * request.runs
        line = _Line(request, seconds, str(next(self._numbers)) if id is None else id, meta)
        with self._changed:
            if self._is_closed:
                raise ClosedError("the verifier is closed")
            if self._run is None:
                self._start()
            self._waiting.append(line)
            self._changed.notify_all()
        return line.future

    def pid(self) -> Optional[int]:
        """Returns the PID of the process. None if no process runs."""
        with self._changed:
            return self._run.process.pid if self._run is not None else None

    def close(self) -> None:
        """Ends the process. Lines without an answer fail."""
        with self._changed:
            self._is_closed = True
            lines, run = self._take_all(), self._run
            if run is not None:
                run.tell_to_end()
            self._changed.notify_all()
        for line in lines:
            line.fail(ClosedError("the verifier was closed before the answer arrived"))
        if run is not None:
            for thread in run.threads:
                if thread is not threading.current_thread():
                    thread.join()

    def abandon(self) -> None:
        """Ends the process without waiting. Called after the verifier was garbage-collected."""
        self._is_closed = True
        run = self._run
        if run is not None:
            run.tell_to_end()

    def hold(self) -> None:
        """Prevents the start of a process by other threads, before this process forks."""
        self._changed.acquire()

    def release(self) -> None:
        """Allows starts again, in the parent after a fork."""
        self._changed.release()

    def forget(self) -> None:
        """Drops the process and its lines in a forked child, because they belong to the parent."""
        run = self._run
        self._begin()
        if run is not None:
            # Close the pipes. Otherwise the process would not notice the end of the parent.
            run.close()
            # Set a return code, because only the parent can wait for the process.
            run.process.returncode = 0

    def _take_all(self) -> List[_Line]:
        lines = [*self._sent.values(), *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        return lines

    def _start(self) -> None:
        try:
            # Use a new session, so that Ctrl-C does not end the program while threads wait for answers.
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=self._environment,
            )
        except OSError as error:
            raise StartError(f"{self._command[0]} cannot be started: {error}") from error
        run = _Run(process)
        threads = [threading.Thread(target=work, args=[run], daemon=True) for work in (self._write, self._read)]
        try:
            for thread in threads:
                thread.start()
                run.threads.append(thread)
        except RuntimeError as error:
            process.kill()
            raise StartError(f"failed to start a thread for {self._command[0]}: {error}") from error
        self._run = run

    def _write(self, run: _Run) -> None:
        while True:
            with self._changed:
                while not (run.has_ended or self._is_closed) and not (self._waiting and len(self._sent) < self._sent_max):
                    self._changed.wait()
                if run.has_ended or self._is_closed:
                    return
                line = self._waiting.popleft()
                if line.future.cancelled():
                    continue
                if not self._sent:
                    run.last_sign = time.monotonic()
                self._sent[str(next(run.lines))] = line
            rest = memoryview(line.request.line)
            try:
                while rest:
                    rest = rest[os.write(run.stdin, rest) :]
            except OSError:
                # The process has ended. The reader notices this too, and handles the line.
                return

    def _read(self, run: _Run) -> None:
        poll = select.poll()
        for descriptor in (run.stdout, run.stderr):
            poll.register(descriptor, select.POLLIN)
        parts: List[bytes] = []
        is_open = True
        while is_open:
            ready = poll.poll(TICK_SECONDS * 1000)
            if not ready:
                # Check the process too, because a descendant may still have the pipes open.
                if run.process.poll() is not None:
                    break
            if not ready or run.told_to_end is not None:
                self._look_at_the_clock(run)
            for descriptor, _ in ready:
                read = os.read(descriptor, READ_BYTES)
                if descriptor == run.stderr:
                    run.said = (run.said + read)[-STDERR_BYTES_MAX:]
                    if not read:
                        poll.unregister(descriptor)
                    continue
                is_open = bool(read)
                parts.append(read)
                if b"\n" in read:
                    *lines, rest = b"".join(parts).split(b"\n")
                    parts = [rest]
                    # Ignore all output after an invalid answer.
                    is_open = all(self._take(run, line) for line in lines)
        self._after(run)

    def _take(self, run: _Run, text: bytes) -> bool:
        """Delivers an answer to its caller. Returns False if the text is not a valid answer."""
        try:
            answer = json.loads(text)
            # If the program could not parse a line, the answer has no id but only the number of the line.
            key = str(answer["line"]) if answer["id"] is None else answer["id"]
            with self._changed:
                line = self._sent.get(key)
                result = result_of(answer, line.lost if line is not None else 0)
                run.has_answered = True
                run.last_sign = time.monotonic()
                if result.status == "cancelled":
                    # The program is ending. `_after` handles its lines.
                    return True
                self._sent.pop(key, None)
                self._changed.notify_all()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Kill the process, because it is unknown to which line this answer belongs.
            run.said += f"\n{self._command[0]} sent an invalid answer ({error!r})".encode()
            run.process.kill()
            return False
        if line is not None:
            line.answer(result)
        return True

    def _look_at_the_clock(self, run: _Run) -> None:
        now = time.monotonic()
        if self._is_closed:
            run.tell_to_end()
        with self._changed:
            allowed = max((line.seconds for line in self._sent.values()), default=None)
        if allowed is not None and now - run.last_sign > allowed + SILENCE_SECONDS_MAX:
            run.was_stuck = True
            run.process.kill()
        if run.told_to_end is not None and now - run.told_to_end > ENDING_SECONDS_MAX:
            run.process.kill()

    def _after(self, run: _Run) -> None:
        """Handles the lines of a process that has ended: retries them, gives them up, or fails them with its error."""
        try:
            code = run.process.wait(ENDING_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            run.process.kill()
            code = run.process.wait()
        with self._changed:
            run.has_ended = True
            self._changed.notify_all()
        writer = run.threads[0]
        writer.join()
        self._read_last_words(run)
        run.close()
        reason = self._reason(run, code)
        lost: List[_Line] = []
        error: Optional[Exception] = None
        with self._changed:
            if self._run is run:
                self._run = None
            sent = list(self._sent.values())
            self._sent.clear()
            if self._is_closed:
                error = ClosedError("the verifier was closed before the answer arrived")
            elif code == UNUSABLE or (code > 0 and not run.has_answered):
                error = StartError(reason)
            # Only the first lines lose an attempt. The program begins lines in order, one for each worker.
            for line in sent[: self._workers]:
                line.lost += 1
            again = [line for line in sent if error is None and line.lost < ATTEMPTS_MAX and not line.future.cancelled()]
            lost = [line for line in sent if line not in again] if error is None else sent
            self._waiting.extendleft(reversed(again))
            if error is None and self._waiting:
                try:
                    self._start()
                except StartError as failed:
                    error = failed
            if error is not None:
                lost += self._waiting
                self._waiting.clear()
        for line in lost:
            if error is not None:
                line.fail(error)
            else:
                line.give_up(f"the program ended {ATTEMPTS_MAX} times while it had this script: {reason}")

    def _read_last_words(self, run: _Run) -> None:
        os.set_blocking(run.stderr, False)
        try:
            while read := os.read(run.stderr, READ_BYTES):
                run.said = (run.said + read)[-STDERR_BYTES_MAX:]
        except OSError:
            # A descendant still has the pipe open, but has written nothing more.
            pass

    def _reason(self, run: _Run, code: int) -> str:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        if run.was_stuck:
            how = f"no answer for {SILENCE_SECONDS_MAX:.0f} s after the timeouts of its scripts"
        said = run.said.decode("utf-8", "replace").strip()
        return f"{self._command[0]}: {how}" + (f": {said}" if said else "")


_all: "weakref.WeakSet[BatchProcess]" = weakref.WeakSet()
_held: List[BatchProcess] = []


def _before_fork() -> None:
    _held.extend(_all)
    for process in _held:
        process.hold()


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    while _held:
        _held.pop().forget()


def _at_exit() -> None:
    for process in list(_all):
        process.close()


atexit.register(_at_exit)
os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
