"""Verification on the nodes of a Ray cluster: `verify` for any iterable, `VerifyBatch` for `ray.data.map_batches`.

    pip install 'qwed-mcp[ray]>=0.3'

Ray decides where things run and notices what is lost. What is kept here is that each script has exactly one result, and that a
lost node is never a script's fault.
"""

import importlib
import itertools
import math
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ._errors import ClosedError, InfraError, StartError
from ._process import ATTEMPTS_MAX
from ._result import Result, without_verdict
from ._script import Request, Script, ScriptLike, _whole, request_of, script_of
from ._verifier import Verifier

try:
    # By name: Ray has no types, and this package needs none of it to be checked.
    ray: Any = importlib.import_module("ray")
    exceptions: Any = importlib.import_module("ray.exceptions")
    strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(f"{_missing.msg}; qwed_mcp.client.ray needs it: pip install 'qwed-mcp[ray]>=0.3'") from _missing

__all__ = ["Progress", "VerifyBatch", "verify"]

# Calls that a node works on at once, so that a slow script in one of them leaves no worker idle.
CALLS_PER_NODE = 4
# Scripts in a call: enough that Ray's own milliseconds do not count.
LINES_PER_CALL = 32
# How long to wait for a node that runs scripts, where there is none. A cluster may be starting one.
NODELESS_SECONDS_MAX = 60.0
# A node whose process was lost so often in a row, without an answer, gets no more scripts.
LOSSES_IN_A_ROW_MAX = 3
# How often nodes are looked for, and progress is told.
TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """How far `verify` is. The rate is that since the start."""

    done: int
    passed: int
    without_verdict: int
    per_second: float
    nodes: int


def verify(
    scripts: Iterable[ScriptLike],
    *,
    lines_per_call: int = LINES_PER_CALL,
    progress: Optional[Callable[[Progress], None]] = None,
    nodeless_seconds: float = NODELESS_SECONDS_MAX,
    **settings: Any,
) -> Iterator[Result]:
    """Yields the result of each script, as they come, from all nodes of the cluster that have processors.

    `settings` are those of `Verifier`; `workers` is for each node, and all its processors without it. The iterable is read as nodes
    have room, `lines_per_call` scripts at a time. `id` is the script's own, or its place from 0 on. Scripts of a lost node run once
    more, elsewhere, with `attempt` 2; lost again, they are `infra_error`. Nodes that join are used.

    Raises StartError where no node can run scripts, and InfraError where all are lost, nothing joins within
    `nodeless_seconds`, and there are scripts left to be read; what was read has its result by then.
    """
    _whole("lines_per_call", lines_per_call)
    return _verify(scripts, lines_per_call, progress, nodeless_seconds, settings)


@dataclass(frozen=True)
class _Line:
    request: Request
    id: str
    meta: Any


@dataclass(frozen=True)
class _Call:
    """Scripts that go to a node together."""

    lines: Tuple[_Line, ...]
    lost: int = 0


class _Node:
    """The actor of a node."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        self._verifier = Verifier(**settings)

    def check(self) -> None:
        """Starts the program. Raises StartError where it refuses."""
        self._verifier.run("print(1)").verdict()

    def verify(self, requests: List[Request]) -> List[Result]:
        try:
            answers = [self._verifier._process.submit(request, None, None) for request in requests]
            return [answer.result() for answer in answers]
        except ClosedError:
            # Whoever asked has stopped; an error would be told to nobody, and loudly.
            return []

    def end(self) -> None:
        self._verifier.close()


class _Place:
    """A node of the cluster, and what is on its way there."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.checking: Any = actor.check.remote()
        self.calls: Dict[Any, _Call] = {}


class _Pool:
    """An actor on each node, and the calls that they have."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        self._settings = settings
        self._places: Dict[str, _Place] = {}
        self._losses: Dict[str, int] = {}
        self._looked = -math.inf
        self.again: Deque[_Call] = deque()
        self.given_up: Deque[_Call] = deque()
        self.refused: Optional[BaseException] = None
        # Since when no node is there that answers.
        self.nodeless_since: Optional[float] = time.monotonic()

    def look(self) -> None:
        """Gives each node that has none an actor, now and then."""
        if time.monotonic() - self._looked < TICK_SECONDS:
            return
        for node in ray.nodes():
            id, processors = node["NodeID"], int(node["Resources"].get("CPU", 0))
            if not node["Alive"] or processors == 0 or id in self._places:
                continue
            if self._losses.get(id, 0) >= LOSSES_IN_A_ROW_MAX:
                continue
            workers = self._settings.get("workers") or processors
            strategy = strategies.NodeAffinitySchedulingStrategy(node_id=id, soft=False)
            options = {"num_cpus": workers, "max_concurrency": CALLS_PER_NODE + 1, "max_restarts": 0, "max_task_retries": 0}
            made = ray.remote(_Node).options(scheduling_strategy=strategy, **options)
            self._places[id] = _Place(made.remote({**self._settings, "workers": workers}))
        self._looked = time.monotonic()

    def room(self) -> int:
        """Returns how many calls may be sent."""
        return sum(CALLS_PER_NODE - len(place.calls) for place in self._places.values() if place.checking is None)

    def nodes(self) -> int:
        """Returns how many nodes answer."""
        return sum(place.checking is None for place in self._places.values())

    def is_idle(self) -> bool:
        """Tells whether no node has scripts."""
        return not any(place.calls for place in self._places.values())

    def send(self, call: _Call) -> None:
        """Gives a call to the node that has least to do."""
        free = [place for place in self._places.values() if place.checking is None]
        place = min(free, key=lambda place: len(place.calls))
        place.calls[place.actor.verify.remote([line.request for line in call.lines])] = call

    def answers(self) -> Iterator[Tuple[_Call, List[Result]]]:
        """Yields the calls that are answered, after a while at most. Those that are lost are in `again` and `given_up`."""
        owners: Dict[Any, str] = {}
        for id, place in self._places.items():
            owners.update((reference, id) for reference in place.calls)
            if place.checking is not None:
                owners[place.checking] = id
        if not owners:
            time.sleep(TICK_SECONDS / 10)
            return
        ready, _ = ray.wait(list(owners), num_returns=1, timeout=TICK_SECONDS)
        for reference in ready:
            answered = self._settle(owners[reference], reference)
            if answered is not None:
                yield answered

    def _settle(self, id: str, reference: Any) -> Optional[Tuple[_Call, List[Result]]]:
        place = self._places[id]
        try:
            results = ray.get(reference)
        except exceptions.RayError as error:
            self._drop(id, error)
            return None
        self._losses.pop(id, None)
        if reference == place.checking:
            place.checking = None
            self.nodeless_since = None
            return None
        return place.calls.pop(reference), results

    def _drop(self, id: str, error: BaseException) -> None:
        """Takes a node out, with all its calls: what it had is not known."""
        place = self._places.pop(id)
        cause = getattr(error, "cause", None)
        self._losses[id] = self._losses.get(id, 0) + 1
        if isinstance(cause, (StartError, ValueError, TypeError, OSError)):
            # It would refuse again.
            self.refused = cause
            self._losses[id] = LOSSES_IN_A_ROW_MAX
        for call in place.calls.values():
            lost = replace(call, lost=call.lost + 1)
            (self.again if lost.lost < ATTEMPTS_MAX else self.given_up).append(lost)
        _kill(place.actor)
        if self.nodes() == 0 and self.nodeless_since is None:
            self.nodeless_since = time.monotonic()

    def is_hopeless(self, seconds: float) -> bool:
        """Tells whether no node answers, and none is to be expected."""
        if self.nodeless_since is None:
            return False
        if self.refused is not None and not self._places:
            return True
        return time.monotonic() - self.nodeless_since > seconds

    def end(self) -> None:
        """Ends all actors, and their programs."""
        ending = [place.actor.end.remote() for place in self._places.values() if place.checking is None]
        if ending and ray.is_initialized():
            ray.wait(ending, num_returns=len(ending), timeout=10 * TICK_SECONDS)
        for place in self._places.values():
            _kill(place.actor)
        self._places.clear()


def _kill(actor: Any) -> None:
    if ray.is_initialized():
        ray.kill(actor)


class _Teller:
    """Tells the progress, once a second and at the end."""

    def __init__(self, tell: Optional[Callable[[Progress], None]]) -> None:
        self._tell = tell
        self._started = self._told = time.monotonic()
        self._counts = {True: 0, False: 0, None: 0}

    def count(self, result: Result) -> Result:
        self._counts[result.passed] += 1
        return result

    def tell(self, nodes: int, is_end: bool = False) -> None:
        now = time.monotonic()
        if self._tell is not None and (is_end or now - self._told >= TICK_SECONDS):
            self._told = now
            done = sum(self._counts.values())
            rate = done / max(now - self._started, 1e-9)
            self._tell(Progress(done, self._counts[True], self._counts[None], rate, nodes))


def _verify(
    scripts: Iterable[ScriptLike],
    lines_per_call: int,
    progress: Optional[Callable[[Progress], None]],
    nodeless_seconds: float,
    settings: Dict[str, Any],
) -> Iterator[Result]:
    pool = _Pool(settings)
    teller = _Teller(progress)
    source = enumerate(scripts)
    is_read = False
    try:
        while not (is_read and pool.is_idle() and not pool.again):
            pool.look()
            while pool.room() > 0 and (pool.again or not is_read):
                if pool.again:
                    pool.send(pool.again.popleft())
                    continue
                lines, invalid = _read(source, lines_per_call)
                is_read = len(lines) + len(invalid) < lines_per_call
                yield from map(teller.count, invalid)
                if lines:
                    pool.send(_Call(lines))
            for call, results in pool.answers():
                for line, result in zip(call.lines, results, strict=True):
                    attempt = result.attempt + call.lost
                    yield teller.count(replace(result, id=line.id, meta=line.meta, attempt=attempt))
            is_hopeless = pool.is_hopeless(nodeless_seconds)
            if is_hopeless:
                pool.given_up.extend(pool.again)
                pool.again.clear()
            while pool.given_up:
                yield from map(teller.count, _given_up(pool.given_up.popleft()))
            teller.tell(pool.nodes())
            if is_hopeless and not is_read:
                raise _hopeless(pool, nodeless_seconds)
        teller.tell(pool.nodes(), is_end=True)
    finally:
        pool.end()


def _read(source: "Iterator[Tuple[int, ScriptLike]]", count: int) -> Tuple[Tuple[_Line, ...], List[Result]]:
    """Reads scripts: lines for a call, and results of those that no line can have."""
    lines: List[_Line] = []
    invalid: List[Result] = []
    for number, item in itertools.islice(source, count):
        script = script_of(item)
        id = str(number) if script.id is None else script.id
        try:
            lines.append(_Line(request_of(script), id, script.meta))
        except ValueError as error:
            invalid.append(without_verdict(id, "invalid", str(error), 1, script.meta))
    return tuple(lines), invalid


def _given_up(call: _Call) -> Iterator[Result]:
    reason = f"{call.lost} nodes were lost that had this script" if call.lost > 1 else "the node was lost, and there is no other"
    for line in call.lines:
        yield without_verdict(line.id, "infra_error", reason, max(call.lost, 1), line.meta)


def _hopeless(pool: _Pool, seconds: float) -> Exception:
    if pool.refused is not None:
        return StartError(f"no node can run scripts: {pool.refused}")
    return InfraError(f"no node of the cluster has answered for {seconds:.0f} s, and there are scripts left")


# The columns of a batch that say how a script is judged, by the names of `Script`.
ASKED = ("code", "stdin", "expect", "tests", "timeout", "memory_mb")
# The columns that are added.
ANSWERED = ("status", "passed", "exit_code", "stdout", "stderr", "duration_ms", "attempt", "message")


class VerifyBatch:
    """What `ray.data.Dataset.map_batches` runs in a pool of actors.

    A batch has a column `code`, and may have `stdin`, `expect`, `tests`, `timeout` and `memory_mb`; null is as good as no column. Columns
    `status`, `passed` (null where there is no verdict), `exit_code`, `stdout`, `stderr`, `duration_ms`, `attempt` and `message` are added,
    with `prefix` before their names. `settings` are those of `Verifier`; `workers` is what Ray gives an actor (`num_cpus`), without it.
    Ray Data itself runs the batches of lost actors again, and does not tell: `attempt`
    counts what happened within one.
    """

    def __init__(self, *, prefix: str = "", **settings: Any) -> None:
        self._prefix = prefix
        if settings.get("workers") is None:
            settings["workers"] = max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
        self._verifier = Verifier(**settings)

    def __call__(self, batch: Mapping[str, Any]) -> Dict[str, Any]:
        """Returns the batch with the results of its scripts."""
        names = {name: f"{self._prefix}{name}" for name in ANSWERED}
        taken: Set[str] = set(names.values()) & set(batch)
        if taken:
            raise ValueError(f"the batch has {', '.join(sorted(taken))} already; VerifyBatch(prefix=…) gives other names")
        asked = {name: [_plain(value) for value in batch[name]] for name in ASKED if name in batch}
        scripts = (
            Script(**{name: value for name, value in zip(asked, row) if value is not None}) for row in zip(*asked.values())
        )
        results = list(self._verifier.map(scripts))
        added = {column: [getattr(result, name) for result in results] for name, column in names.items()}
        return {**batch, **added}


def _plain(value: Any) -> Any:
    """Returns a value of a column as Python's own, None for what stands for nothing."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and math.isnan(value) else value
