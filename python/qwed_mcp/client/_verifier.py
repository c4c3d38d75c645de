"""The verifiers for plain Python and for asyncio."""

import asyncio
import os
import sys
import weakref
from collections import deque
from types import TracebackType
from typing import Any, AsyncIterable, AsyncIterator, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, Union

from .. import _program
from ._process import BatchProcess, Waiter
from ._result import Result, without_verdict
from ._script import Expect, Input, Script, ScriptLike, Test, _seconds, _whole, request_of, script_of

# The program's default timeout.
DEFAULT_SECONDS = 30.0
# The default maximum of scripts in flight in `map` for each worker. A slow script then leaves no other worker idle.
LINES_PER_WORKER = 8


class _Settings:
    """The settings of a verifier. They suffice to create the same verifier in another process."""

    def __init__(
        self,
        *,
        workers: Optional[int] = None,
        timeout: Optional[float] = None,
        memory_mb: Optional[int] = None,
        analysis: str = "default",
        allow_readable_answers: bool = False,
        unsafe_rewards: bool = False,
        require_judge: Optional[str] = None,
        binary: "Optional[Union[str, os.PathLike[str]]]" = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Stores the settings. Starts no process.

        - `workers`: the number of simultaneous scripts. The default is the number of processors that this process may
          use.
        - `timeout` (seconds), `memory_mb` (MiB): the limits of each run of a script without limits of its own.
        - `analysis="report"`: findings of the analysis are reported, but do not block a script. Such scripts rely on
          the kernel's sandbox alone.
        - `allow_readable_answers`: also runs scripts that can read files with the expected answers.
        - `unsafe_rewards`: also runs scripts without a sandbox that protects files and processes. Such scripts can read
          the expected answers.
        - `require_judge="isolated"`: a script passes only if it was judged outside of its sandbox.
        - `binary`: the path of the program. The default is the program of this package.
        - `environment`: replaces this process's environment variables.
        """
        if analysis not in ("default", "report"):
            raise ValueError(f"analysis is 'default' or 'report', not {analysis!r}")
        if require_judge not in (None, "isolated"):
            raise ValueError(f"require_judge is 'isolated' or None, not {require_judge!r}")
        self._settings: Dict[str, Any] = {
            "workers": workers,
            "timeout": timeout,
            "memory_mb": memory_mb,
            "analysis": analysis,
            "allow_readable_answers": allow_readable_answers,
            "unsafe_rewards": unsafe_rewards,
            "require_judge": require_judge,
            "binary": None if binary is None else os.fspath(binary),
            "environment": None if environment is None else dict(environment),
        }
        options: List[str] = []
        if workers is not None:
            options += ["--workers", str(_whole("workers", workers))]
        if timeout is not None:
            options += ["--timeout", repr(_seconds(timeout))]
        if memory_mb is not None:
            options += ["--memory-mb", str(_whole("memory_mb", memory_mb))]
        if analysis != "default":
            options += ["--analysis", analysis]
        if allow_readable_answers:
            options += ["--allow-readable-answers"]
        if unsafe_rewards:
            options += ["--unsafe-rewards"]
        if require_judge is not None:
            options += ["--require-judge", require_judge]
        self.workers = workers or _processors()
        program = _program.find_program() if binary is None else os.fspath(binary)
        command = [program, "run", "--batch", "-", *options]
        self._process = BatchProcess(command, environment, self.workers, timeout or DEFAULT_SECONDS)
        self._finalizer = weakref.finalize(self, self._process.abandon)
        # At the interpreter's exit, the module `_process` ends its processes and waits for them instead.
        self._finalizer.atexit = False

    def __getstate__(self) -> Dict[str, Any]:
        return self._settings

    def __setstate__(self, settings: Dict[str, Any]) -> None:
        _Settings.__init__(self, **settings)

    @property
    def pid(self) -> Optional[int]:
        """The PID of the process. None if no process runs."""
        return self._process.pid()

    def _submit(self, script: Script, waiter: Waiter) -> None:
        self._process.submit(request_of(script), script.id, script.meta, waiter)

    def _submit_item(self, number: int, item: ScriptLike, waiter: Waiter) -> None:
        """Submits an item of `map`. Its result is `invalid` if it cannot be sent as a line."""
        script = script_of(item)
        id = str(number) if script.id is None else script.id
        try:
            request = request_of(script)
        except ValueError as error:
            waiter.deliver(without_verdict(id, "invalid", str(error), 1, script.meta))
        else:
            self._process.submit(request, id, script.meta, waiter)

    def _bound(self, concurrency: Optional[int]) -> int:
        return LINES_PER_WORKER * self.workers if concurrency is None else _whole("concurrency", concurrency)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _judged(result: Result) -> Result:
    """Returns the result. Raises ValueError if the program could not parse the request."""
    if result.status == "invalid":
        raise ValueError(result.message or result.stderr or "the program does not accept this script")
    return result


class Verifier(_Settings):
    """Runs scripts in the sandbox and judges them, from any thread.

    The first script starts a process. The process runs until `close`, the end of a `with` block, or the end of this
    Python process. After a fork, and after unpickling, a verifier starts its own process.
    """

    def run(
        self,
        code: str,
        *,
        id: Optional[str] = None,
        stdin: Optional[str] = None,
        inputs: Optional[Mapping[str, Input]] = None,
        expect: "Optional[Union[str, Expect]]" = None,
        tests: "Optional[Iterable[Union[Test, Tuple[str, str]]]]" = None,
        timeout: Optional[float] = None,
        memory_mb: Optional[int] = None,
        meta: Any = None,
    ) -> Result:
        """Runs a script, and returns its result.

        Raises ValueError or TypeError if an argument is not valid. Raises StartError if the program cannot be used, and
        ClosedError if the verifier is closed.
        """
        script = Script(code, id, stdin, expect, tests, timeout, memory_mb, meta, inputs)
        waiter = Waiter()
        try:
            self._submit(script, waiter)
            return _judged(waiter.result())
        finally:
            # Cancel the script if an interrupt ended the wait. Otherwise this has no effect.
            waiter.is_cancelled = True

    def map(
        self, scripts: Iterable[ScriptLike], *, concurrency: Optional[int] = None, ordered: bool = True
    ) -> Iterator[Result]:
        """Yields the results of scripts, in the order of the scripts. With `ordered=False`, yields them as they arrive.

        Reads the next script only when the caller requests a result and fewer than `concurrency` scripts are in flight.
        The iterable may therefore be endless. Each script has exactly one result. A script that cannot be sent as a
        line has the result `invalid`. The default of `id` is the index of the script, from 0.
        """
        return self._map(scripts, self._bound(concurrency), ordered)

    def _map(self, scripts: Iterable[ScriptLike], bound: int, ordered: bool) -> Iterator[Result]:
        # The waiters of the scripts in flight. All scripts have the same waiter if the order is not relevant.
        waiters: Deque[Waiter] = deque()
        shared = Waiter()
        try:
            for number, item in enumerate(scripts):
                waiters.append(Waiter() if ordered else shared)
                self._submit_item(number, item, waiters[-1])
                while waiters and (len(waiters) >= bound or not waiters[0].answers.empty()):
                    yield waiters[0].result()
                    waiters.popleft()
            while waiters:
                yield waiters[0].result()
                waiters.popleft()
        finally:
            for waiter in waiters:
                waiter.is_cancelled = True

    def close(self) -> None:
        """Ends the process. Calls that wait for a result raise ClosedError. A second call has no effect."""
        self._finalizer.detach()
        self._process.close()

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class AsyncVerifier(_Settings):
    """The verifier for asyncio. It may be used in several event loops."""

    async def run(
        self,
        code: str,
        *,
        id: Optional[str] = None,
        stdin: Optional[str] = None,
        inputs: Optional[Mapping[str, Input]] = None,
        expect: "Optional[Union[str, Expect]]" = None,
        tests: "Optional[Iterable[Union[Test, Tuple[str, str]]]]" = None,
        timeout: Optional[float] = None,
        memory_mb: Optional[int] = None,
        meta: Any = None,
    ) -> Result:
        """Runs a script, and returns its result. Raises the same errors as `Verifier.run`.

        The cancellation of a task affects no other task.
        """
        script = Script(code, id, stdin, expect, tests, timeout, memory_mb, meta, inputs)
        waiter = _LoopWaiter()
        self._submit(script, waiter)
        return _judged(await waiter.future)

    async def map(
        self,
        scripts: Union[Iterable[ScriptLike], AsyncIterable[ScriptLike]],
        *,
        concurrency: Optional[int] = None,
        ordered: bool = True,
    ) -> AsyncIterator[Result]:
        """Yields the results of scripts, like `Verifier.map`. The iterable may be asynchronous.

        An asynchronous iterable does not delay results while its next script is not available yet.
        """
        bound = self._bound(concurrency)
        changed = asyncio.Event()
        source = _Source(scripts, changed)
        answers: "Deque[asyncio.Future[Result]]" = deque()
        number = 0
        try:
            while True:
                answer = _done(answers, ordered)
                if answer is not None:
                    yield answer.result()
                    continue
                changed.clear()
                if len(answers) < bound:
                    for item in source.take():
                        waiter = _LoopWaiter()
                        self._submit_item(number, item, waiter)
                        waiter.future.add_done_callback(lambda _: changed.set())
                        answers.append(waiter.future)
                        number += 1
                    if source.is_ready():
                        continue
                if not answers and source.has_ended:
                    return
                await changed.wait()
        finally:
            await source.end()
            for answer in answers:
                # Retrieve the exception, which another result has raised already. Otherwise asyncio would log it.
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()

    async def close(self) -> None:
        """Ends the process. Calls that wait for a result raise ClosedError. A second call has no effect."""
        self._finalizer.detach()
        # Close in another thread, because the wait for the process must not block the event loop.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._process.close))

    async def __aenter__(self) -> "AsyncVerifier":
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()


class _LoopWaiter(Waiter):
    """Receives the answer to one line in a future of the running event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.future: "asyncio.Future[Result]" = self._loop.create_future()
        self.future.add_done_callback(self._cancel)

    def deliver(self, answer: Union[Result, Exception]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, answer)
        except RuntimeError:
            # The event loop is closed, so no task waits for the answer.
            pass

    def _settle(self, answer: Union[Result, Exception]) -> None:
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)

    def _cancel(self, _: "asyncio.Future[Result]") -> None:
        self.is_cancelled = True


def _done(answers: "Deque[asyncio.Future[Result]]", ordered: bool) -> "Optional[asyncio.Future[Result]]":
    """Removes and returns the next answer that may be yielded. None if no such answer has arrived."""
    for answer in answers:
        if answer.done():
            answers.remove(answer)
            return answer
        if ordered:
            break
    return None


class _Source:
    """Reads the scripts of a plain or asynchronous iterable, one at a time."""

    def __init__(self, scripts: Union[Iterable[ScriptLike], AsyncIterable[ScriptLike]], changed: asyncio.Event) -> None:
        self._plain: Optional[Iterator[ScriptLike]] = None
        self._waited: Optional[AsyncIterator[ScriptLike]] = None
        self._pull: "Optional[asyncio.Task[ScriptLike]]" = None
        self._changed = changed
        self.has_ended = False
        if isinstance(scripts, AsyncIterable):
            self._waited = scripts.__aiter__()
        else:
            self._plain = iter(scripts)

    def take(self) -> List[ScriptLike]:
        """Returns the next script in a list. The list is empty if the script is not available yet, or at the end."""
        if self.has_ended:
            return []
        try:
            if self._plain is not None:
                return [next(self._plain)]
            if self._pull is None:
                self._pull = asyncio.ensure_future(self._next())
                self._pull.add_done_callback(lambda _: self._changed.set())
            if self._pull.done():
                pull, self._pull = self._pull, None
                return [pull.result()]
        except (StopIteration, StopAsyncIteration):
            self.has_ended = True
        return []

    def is_ready(self) -> bool:
        """Returns whether another script may be available without waiting."""
        return not self.has_ended and (self._plain is not None or self._pull is None)

    async def end(self) -> None:
        """Stops waiting for a script."""
        if self._pull is not None:
            self._pull.cancel()
            await asyncio.wait([self._pull])
            if not self._pull.cancelled():
                self._pull.exception()

    async def _next(self) -> ScriptLike:
        assert self._waited is not None
        return await self._waited.__anext__()
