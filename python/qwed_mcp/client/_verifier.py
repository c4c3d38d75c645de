"""The verifier for plain Python, and the one for asyncio."""

import asyncio
import os
import queue
import sys
import weakref
from collections import deque
from concurrent.futures import Future
from types import TracebackType
from typing import Any, AsyncIterable, AsyncIterator, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, Union

from .. import _program
from ._process import BatchProcess
from ._result import Result, without_verdict
from ._script import Expect, Script, ScriptLike, Test, _seconds, _whole, request_of, script_of

# What the program takes where nobody says another time.
DEFAULT_SECONDS = 30.0
# Scripts on the way for each worker, where `map` is not told: enough that a slow one does not leave others idle.
LINES_PER_WORKER = 8


class _Settings:
    """What a verifier was made with: enough to make another one like it in another process."""

    def __init__(
        self,
        *,
        workers: Optional[int] = None,
        timeout: Optional[float] = None,
        memory_mb: Optional[int] = None,
        analysis: str = "default",
        allow_readable_answers: bool = False,
        binary: "Optional[Union[str, os.PathLike[str]]]" = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Takes the settings, starts nothing.

        `workers` is how many scripts run at once: the processors that this process may use, without it. `timeout`
        (seconds) and `memory_mb` are for each run of a script, where the script has none of its own. `analysis="report"` is for
        pipelines that trust the kernel's sandbox alone: findings are reported, and nothing is refused for them.
        `allow_readable_answers` runs scripts also where no sandbox keeps them from the answers that they are judged by. `binary` is the
        program, that of this package without it. `environment` replaces this process's variables.
        """
        if analysis not in ("default", "report"):
            raise ValueError(f"analysis is 'default' or 'report', not {analysis!r}")
        self._settings: Dict[str, Any] = {
            "workers": workers,
            "timeout": timeout,
            "memory_mb": memory_mb,
            "analysis": analysis,
            "allow_readable_answers": allow_readable_answers,
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
        self.workers = workers or _processors()
        program = _program.find_program() if binary is None else os.fspath(binary)
        command = [program, "run", "--batch", "-", *options]
        self._process = BatchProcess(command, environment, self.workers, timeout or DEFAULT_SECONDS)
        self._finalizer = weakref.finalize(self, self._process.abandon)
        # What ends processes with the interpreter waits for them, which this does not.
        self._finalizer.atexit = False

    def __getstate__(self) -> Dict[str, Any]:
        return self._settings

    def __setstate__(self, settings: Dict[str, Any]) -> None:
        _Settings.__init__(self, **settings)

    @property
    def pid(self) -> Optional[int]:
        """The id of the process, where there is one."""
        return self._process.pid()

    def _submit(self, script: Script) -> "Future[Result]":
        return self._process.submit(request_of(script), script.id, script.meta)

    def _submit_item(self, number: int, item: ScriptLike) -> "Future[Result]":
        """Returns the answer to come for an item of `map`: what no line can have is an answer, too."""
        script = script_of(item)
        id = str(number) if script.id is None else script.id
        try:
            request = request_of(script)
        except ValueError as error:
            answered: "Future[Result]" = Future()
            answered.set_result(without_verdict(id, "invalid", str(error), 1, script.meta))
            return answered
        return self._process.submit(request, id, script.meta)

    def _bound(self, concurrency: Optional[int]) -> int:
        return LINES_PER_WORKER * self.workers if concurrency is None else _whole("concurrency", concurrency)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _judged(result: Result) -> Result:
    """Returns a result, unless the program did not understand the question."""
    if result.status == "invalid":
        raise ValueError(result.message or result.stderr or "the program does not take this script")
    return result


class Verifier(_Settings):
    """Runs scripts in the sandbox and judges them, from any thread.

    One process is started with the first script and kept until `close`, the end of a `with`, or the end of this process.
    A fork of this process, and a copy by pickle, starts one of its own.
    """

    def run(
        self,
        code: str,
        *,
        id: Optional[str] = None,
        stdin: Optional[str] = None,
        expect: "Optional[Union[str, Expect]]" = None,
        tests: "Optional[Iterable[Union[Test, Tuple[str, str]]]]" = None,
        timeout: Optional[float] = None,
        memory_mb: Optional[int] = None,
        meta: Any = None,
    ) -> Result:
        """Returns what came of a script, once it is there.

        Raises ValueError or TypeError where the script cannot be asked for, StartError where the program cannot be used,
        ClosedError where the verifier is closed.
        """
        script = Script(code, id, stdin, expect, tests, timeout, memory_mb, meta)
        answer = self._submit(script)
        try:
            return _judged(answer.result())
        finally:
            # Of use where this is interrupted: nobody waits for it any more.
            answer.cancel()

    def map(
        self, scripts: Iterable[ScriptLike], *, concurrency: Optional[int] = None, ordered: bool = True
    ) -> Iterator[Result]:
        """Yields the results of scripts, in their order or, with `ordered=False`, as they come.

        Takes a script from the iterable only when one is asked for and fewer than `concurrency` are on their way, so that an
        endless one is fine. Each script has exactly one result: one that cannot be written as a line is `invalid`.
        `id` is the script's own, or its place in the iterable, from 0 on.
        """
        bound = self._bound(concurrency)
        return self._map_in_order(scripts, bound) if ordered else self._map_as_they_come(scripts, bound)

    def _map_in_order(self, scripts: Iterable[ScriptLike], bound: int) -> Iterator[Result]:
        answers: "Deque[Future[Result]]" = deque()
        try:
            for number, item in enumerate(scripts):
                answers.append(self._submit_item(number, item))
                while answers and (len(answers) >= bound or answers[0].done()):
                    yield answers.popleft().result()
            while answers:
                yield answers.popleft().result()
        finally:
            for answer in answers:
                answer.cancel()

    def _map_as_they_come(self, scripts: Iterable[ScriptLike], bound: int) -> Iterator[Result]:
        answered: "queue.SimpleQueue[Future[Result]]" = queue.SimpleQueue()
        on_their_way: "set[Future[Result]]" = set()

        def next_result() -> Result:
            answer = answered.get()
            on_their_way.discard(answer)
            return answer.result()

        try:
            for number, item in enumerate(scripts):
                answer = self._submit_item(number, item)
                on_their_way.add(answer)
                answer.add_done_callback(answered.put)
                while on_their_way and (len(on_their_way) >= bound or not answered.empty()):
                    yield next_result()
            while on_their_way:
                yield next_result()
        finally:
            for answer in on_their_way:
                answer.cancel()

    def close(self) -> None:
        """Ends the process. What waits for an answer gets ClosedError. Closing twice is fine."""
        self._finalizer.detach()
        self._process.close()

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class AsyncVerifier(_Settings):
    """The verifier for asyncio: the same process, awaited. It may be used in several event loops."""

    async def run(
        self,
        code: str,
        *,
        id: Optional[str] = None,
        stdin: Optional[str] = None,
        expect: "Optional[Union[str, Expect]]" = None,
        tests: "Optional[Iterable[Union[Test, Tuple[str, str]]]]" = None,
        timeout: Optional[float] = None,
        memory_mb: Optional[int] = None,
        meta: Any = None,
    ) -> Result:
        """Returns what came of a script. Errors are those of `Verifier.run`.

        A task that is cancelled loses its own answer, and no other's.
        """
        script = Script(code, id, stdin, expect, tests, timeout, memory_mb, meta)
        return _judged(await asyncio.wrap_future(self._submit(script)))

    async def map(
        self,
        scripts: Union[Iterable[ScriptLike], AsyncIterable[ScriptLike]],
        *,
        concurrency: Optional[int] = None,
        ordered: bool = True,
    ) -> AsyncIterator[Result]:
        """Yields the results of scripts as `Verifier.map` does, of an asynchronous iterable too.

        With one of these, results come while the next script is still waited for.
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
                        submitted = asyncio.wrap_future(self._submit_item(number, item))
                        submitted.add_done_callback(lambda _: changed.set())
                        answers.append(submitted)
                        number += 1
                    if source.is_ready():
                        continue
                if not answers and source.has_ended:
                    return
                await changed.wait()
        finally:
            await source.end()
            for answer in answers:
                # One that failed has told so by another one; asyncio would say that nobody has looked.
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()

    async def close(self) -> None:
        """Ends the process. What waits for an answer gets ClosedError. Closing twice is fine."""
        self._finalizer.detach()
        # It waits for the process, which the event loop must not.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._process.close))

    async def __aenter__(self) -> "AsyncVerifier":
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()


def _done(answers: "Deque[asyncio.Future[Result]]", ordered: bool) -> "Optional[asyncio.Future[Result]]":
    """Takes the next answer that may be given, if there is one."""
    for answer in answers:
        if answer.done():
            answers.remove(answer)
            return answer
        if ordered:
            break
    return None


class _Source:
    """The scripts of an iterable, of either kind, one at a time."""

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
        """Returns the next script, or none where it is not there yet or there is no more."""
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
        """Tells whether there may be another script at once."""
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
