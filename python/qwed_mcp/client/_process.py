"""A process of `qwed-mcp run --batch -` that threads share. Restarts the process after a failure, and retries lines.

One thread starts the process and reads answers, and another thread writes lines. Callers take no locks, so a signal
handler may interrupt a call and make another one. The threads refer to `BatchProcess` and not to the verifier, so the
process of a verifier ends when the verifier is garbage-collected.
"""

import atexit
import itertools
import json
import os
import queue
import select
import subprocess
import threading
import time
import weakref
from collections import deque
from typing import Any, Deque, Dict, List, Mapping, Optional, Set, Union

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
# The maximum number of attempts that the program itself makes for a line.
PROGRAM_ATTEMPTS_MAX = 2
# The maximum number of variants that the program runs after each run of a script, if `QWED_MCP_VACUITY` is `on`.
VARIANTS_MAX = 4
# The maximum time to wait for a fork by another thread before a start.
FORK_SECONDS_MAX = 60.0
# The maximum size of the stored end of the process's standard error. Messages contain it.
STDERR_BYTES_MAX = 8 * 1024
READ_BYTES = 1 << 16
# The exit code of the program if its arguments are invalid, or if it cannot run on this machine.
UNUSABLE = 2


class Waiter:
    """Receives the answers to the lines of a call: results and errors.

    A signal handler may interrupt a caller at any point, and wait for another answer. So the threads that deliver
    answers must not wait for a lock that a caller may hold. For example, the methods of `Future` hold a lock.
    """

    def __init__(self) -> None:
        self.answers: "queue.SimpleQueue[Union[Result, Exception]]" = queue.SimpleQueue()
        # True after the call. Its lines are then neither sent nor repeated.
        self.is_cancelled = False

    def deliver(self, answer: Union[Result, Exception]) -> None:
        self.answers.put(answer)

    def result(self) -> Result:
        """Waits for the next answer. Returns the result, or raises the error."""
        answer = self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Line:
    """A line that waits for its answer."""

    __slots__ = ("id", "lost", "meta", "request", "seconds", "waiter")

    def __init__(self, request: Request, seconds: float, id: str, meta: Any, waiter: Waiter) -> None:
        self.request = request
        self.seconds = seconds
        self.id = id
        self.meta = meta
        self.waiter = waiter
        # The number of processes that died after they may have begun this line.
        self.lost = 0

    def answer(self, result: Result) -> None:
        self.waiter.deliver(named(result, self.id, self.meta))

    def fail(self, error: Exception) -> None:
        # Each line needs its own exception, because `raise` adds a traceback to the exception.
        own = type(error)(*error.args)
        own.__cause__ = error.__cause__
        self.waiter.deliver(own)

    def give_up(self, reason: str) -> None:
        self.answer(without_verdict(self.id, "infra_error", reason, max(self.lost, 1), self.meta))


class _Thread(threading.Thread):
    """A thread of a verifier, for which calls wait."""


class _Run:
    """One start of the program."""

    def __init__(self, process: "subprocess.Popen[bytes]", environment: Mapping[str, str]) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.process = process
        self.stdin = process.stdin.fileno()
        self.stdout = process.stdout.fileno()
        self.stderr = process.stderr.fileno()
        self.said = b""
        # The program repeats a line if the machine may be the cause of its answer. Each variant has the same timeout as
        # the script.
        has_variants = environment.get("QWED_MCP_VACUITY", "").strip().lower() == "on"
        self.repeats_max = PROGRAM_ATTEMPTS_MAX * (1 + (VARIANTS_MAX if has_variants else 0))
        # The numbers of the lines. Requests have no ids, so answers contain these numbers.
        self.lines = itertools.count(1)
        # The lines that this process has not answered yet, by number.
        self.sent: Dict[str, _Line] = {}
        # Each item wakes the writer.
        self.wakes: "queue.SimpleQueue[None]" = queue.SimpleQueue()
        self.has_ended = False
        self.has_answered = False
        self.was_stuck = False
        self.last_sign = time.monotonic()
        self.told_to_end: Optional[float] = None

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
        self._waiting: Deque[_Line] = deque()
        self._run: Optional[_Run] = None
        # Held by the thread that serves lines.
        self._serving = threading.Lock()
        self._threads: Set[threading.Thread] = set()

    def submit(self, request: Request, id: Optional[str], meta: Any, waiter: Waiter) -> None:
        """Submits a line. The waiter receives its result, or StartError if the program cannot be started.

        Raises ClosedError after `close`, and RuntimeError if a finalizer calls this on a thread of a verifier.
        """
        if isinstance(threading.current_thread(), _Thread):
            raise RuntimeError("a finalizer called a verifier on a thread that delivers answers, which cannot wait for an answer")
        if self._is_closed:
            raise ClosedError("the verifier is closed")
        # A float, because a product of large integers may not fit into a float.
        seconds = float(request.timeout or self._timeout) * request.runs
        line = _Line(request, seconds, str(next(self._numbers)) if id is None else id, meta, waiter)
        try:
            self._waiting.append(line)
            self._wake()
        except BaseException:
            waiter.is_cancelled = True
            raise

    def _wake(self) -> None:
        """Wakes the writer. Starts a thread that serves lines if no thread serves lines."""
        run = self._run
        if run is not None:
            run.wakes.put(None)
        if not self._serving.locked():
            try:
                _Thread(target=self._serve, daemon=True).start()
            except RuntimeError as error:
                raise StartError(f"failed to start a thread for {self._command[0]}: {error}") from error

    def pid(self) -> Optional[int]:
        """Returns the PID of the process. None if no process runs."""
        run = self._run
        return run.process.pid if run is not None and not run.has_ended else None

    def close(self) -> None:
        """Ends the process. Lines without an answer fail."""
        self.abandon()
        # Threads of verifiers must not wait for each other.
        if not isinstance(threading.current_thread(), _Thread):
            for thread in list(self._threads):
                thread.join()

    def abandon(self) -> None:
        """Ends the process without waiting. Also called after the verifier was garbage-collected."""
        self._is_closed = True
        run = self._run
        if run is not None:
            run.tell_to_end()
            run.wakes.put(None)

    def forget(self) -> None:
        """Drops the process and fails its lines in a forked child, because they belong to the parent."""
        run = self._run
        lines = list(self._waiting)
        self._begin()
        if run is not None:
            lines += run.sent.values()
            # Close the pipes. Otherwise the process would not notice the end of the parent.
            run.close()
            # Set a return code, because only the parent can wait for the process.
            run.process.returncode = 0
        for line in lines:
            line.fail(ClosedError("the answer belongs to the parent process"))

    def _serve(self) -> None:
        """Runs the program while lines wait. Returns at once if another thread runs it."""
        self._threads.add(threading.current_thread())
        # The last check for waiting lines comes after the release of the lock, because callers start no thread while
        # the lock is held.
        while self._waiting and self._serving.acquire(blocking=False):
            try:
                self._serve_run()
            finally:
                self._serving.release()
        self._threads.discard(threading.current_thread())

    def _serve_run(self) -> None:
        try:
            run = self._start()
        except Exception as error:
            self._fail([], error)
            return
        writer = _Thread(target=self._write, args=[run], daemon=True)
        failed: Optional[Exception] = None
        try:
            writer.start()
            self._read(run)
        except BaseException as error:
            failed = StartError(f"failed to use {self._command[0]}: {error!r}")
            run.process.kill()
        self._after(run, writer, failed)
        self._run = None

    def _start(self) -> _Run:
        if self._is_closed:
            raise ClosedError("the verifier was closed before the answer arrived")
        # A fork during the start would copy pipes that `forget` does not close. The wait is bounded, because a signal
        # handler may interrupt the fork and wait for this start.
        starting = _starting
        if not starting.acquire(timeout=FORK_SECONDS_MAX):
            raise StartError(f"{self._command[0]} cannot be started during a fork")
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
            self._run = run = _Run(process, os.environ if self._environment is None else self._environment)
        except Exception as error:
            raise StartError(f"{self._command[0]} cannot be started: {error}") from error
        finally:
            starting.release()
        if self._is_closed:
            run.tell_to_end()
        return run

    def _write(self, run: _Run) -> None:
        while not (run.has_ended or self._is_closed):
            if not self._waiting or len(run.sent) >= self._sent_max:
                run.wakes.get()
                continue
            if self._waiting[0].waiter.is_cancelled:
                self._waiting.popleft()
                continue
            if not run.sent:
                run.last_sign = time.monotonic()
            # A line without an answer is always in `sent` or `_waiting`, because a forked child searches both.
            run.sent[str(next(run.lines))] = line = self._waiting[0]
            self._waiting.popleft()
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

    def _take(self, run: _Run, text: bytes) -> bool:
        """Delivers an answer to its caller. Returns False if the text is not a valid answer."""
        try:
            answer = json.loads(text)
            # If the program could not parse a line, the answer has no id but only the number of the line.
            key = str(answer["line"]) if answer["id"] is None else answer["id"]
            line = run.sent.get(key)
            result = result_of(answer, line.lost if line is not None else 0)
            run.has_answered = True
            run.last_sign = time.monotonic()
            if result.status == "cancelled":
                # The program is ending. `_after` handles its lines.
                return True
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Kill the process, because it is unknown to which line this answer belongs.
            run.said += f"\n{self._command[0]} sent an invalid answer ({error!r})".encode()
            run.process.kill()
            return False
        if line is not None:
            line.answer(result)
        run.sent.pop(key, None)
        run.wakes.put(None)
        return True

    def _look_at_the_clock(self, run: _Run) -> None:
        now = time.monotonic()
        if self._is_closed:
            run.tell_to_end()
        allowed = max((line.seconds for line in list(run.sent.values())), default=None)
        if allowed is not None and now - run.last_sign > allowed * run.repeats_max + SILENCE_SECONDS_MAX:
            run.was_stuck = True
            run.process.kill()
        if run.told_to_end is not None and now - run.told_to_end > ENDING_SECONDS_MAX:
            run.process.kill()

    def _after(self, run: _Run, writer: _Thread, error: Optional[Exception]) -> None:
        """Handles the lines of a process that has ended: retries them, gives them up, or fails them with an error."""
        try:
            code = run.process.wait(ENDING_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            run.process.kill()
            code = run.process.wait()
        run.has_ended = True
        run.wakes.put(None)
        if writer.ident is not None:
            writer.join()
        self._read_last_words(run)
        run.close()
        reason = self._reason(run, code)
        sent = list(run.sent.values())
        if self._is_closed:
            error = ClosedError("the verifier was closed before the answer arrived")
        elif error is None and (code == UNUSABLE or (code > 0 and not run.has_answered)):
            error = StartError(reason)
        if error is not None:
            self._fail(sent, error)
            return
        # Count an attempt only for the first lines, because the program begins lines in order, one for each worker.
        for line in sent[: self._workers]:
            line.lost += 1
        for line in reversed(sent):
            if line.lost < ATTEMPTS_MAX and not line.waiter.is_cancelled:
                self._waiting.appendleft(line)
            else:
                line.give_up(f"the program ended {ATTEMPTS_MAX} times while it had this script: {reason}")

    def _fail(self, sent: List[_Line], error: Exception) -> None:
        # Exclude lines that callers submit from now on, because the next start may succeed.
        waiting = list(self._waiting)
        for line in sent + waiting:
            line.fail(error)
        for _ in waiting:
            self._waiting.popleft()

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
# Held during each start and each fork. Reentrant, because a finalizer may fork.
_starting = threading.RLock()


def _before_fork() -> None:
    _starting.acquire()


def _in_parent() -> None:
    _starting.release()


def _in_child() -> None:
    global _starting
    _starting = threading.RLock()
    for process in list(_all):
        process.forget()


def _at_exit() -> None:
    for process in list(_all):
        process.close()


atexit.register(_at_exit)
os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
