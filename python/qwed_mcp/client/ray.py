"""Verification on the nodes of a Ray cluster: `verify` for any iterable, `VerifyBatch` for `ray.data.map_batches`.

    pip install 'qwed-mcp[ray]>=0.3'

Ray selects the nodes on which scripts run, and detects lost nodes. This module ensures that each script has exactly one
result, and that a lost node never counts as a failure of a script.
"""

import importlib
import itertools
import math
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ._errors import ClosedError, InfraError, StartError
from ._process import ATTEMPTS_MAX, Waiter
from ._result import Result, without_verdict
from ._script import Request, Script, ScriptLike, _whole, request_of, script_of
from ._verifier import Verifier

try:
    # Import Ray by name, because Ray has no type annotations, and type checks of this package must not need Ray.
    ray: Any = importlib.import_module("ray")
    exceptions: Any = importlib.import_module("ray.exceptions")
    strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(f"{_missing.msg}; qwed_mcp.client.ray needs it: pip install 'qwed-mcp[ray]>=0.3'") from _missing

__all__ = ["Progress", "VerifyBatch", "verify"]

# The number of simultaneous calls of a node. It is above 1, so that a slow script in one call leaves no worker idle.
CALLS_PER_NODE = 4
# The number of scripts in a call. With this number, the overhead of Ray (milliseconds) is negligible.
LINES_PER_CALL = 32
# The time to wait for a node that can run scripts. The cluster may be starting a node.
NODELESS_SECONDS_MAX = 60.0
# A node that was lost this many times without an answer in between gets no more scripts.
LOSSES_IN_A_ROW_MAX = 3
# The interval at which new nodes are discovered and the progress is reported.
TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """The progress of `verify`. The rate is the average since the start."""

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
    """Yields the results of scripts as they arrive, from all nodes of the cluster that have processors.

    `settings` are the settings of `Verifier`. `workers` applies to each node. Its default is the number of the node's
    processors. When a node has capacity, this function reads `lines_per_call` scripts from the iterable. The default of
    `id` is the index of the script, from 0. Scripts of a lost node run again on another node, with `attempt` 2. If that
    node is lost too, the results of the scripts are `infra_error`. Nodes that join later are used.

    Raises StartError if no node can run scripts. Raises InfraError if all nodes are lost, no node joins within
    `nodeless_seconds`, and the iterable has more scripts. All scripts that were read have their results by then.
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
    """Scripts that are sent to a node together. `lost` is the number of nodes that were lost with these scripts."""

    lines: Tuple[_Line, ...]
    lost: int = 0


class _Node:
    """The Ray actor that runs on a node."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        self._verifier = Verifier(**settings)

    def check(self) -> None:
        """Starts the program. Raises StartError if it refuses to start."""
        self._verifier.run("print(1)", expect="1").verdict()

    def verify(self, requests: List[Request]) -> List[Result]:
        waiters = [Waiter() for _ in requests]
        try:
            for request, waiter in zip(requests, waiters):
                self._verifier._process.submit(request, None, None, waiter)
            return [waiter.result() for waiter in waiters]
        except ClosedError:
            # Return no results, because the caller has stopped. Ray would only log an error.
            return []

    def end(self) -> None:
        self._verifier.close()


class _Place:
    """A node of the cluster, and its calls in flight."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.checking: Any = actor.check.remote()
        self.calls: Dict[Any, _Call] = {}


class _Pool:
    """The actors of all nodes, and their calls."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        self._settings = settings
        self._places: Dict[str, _Place] = {}
        self._losses: Dict[str, int] = {}
        self._looked = -math.inf
        self.again: Deque[_Call] = deque()
        self.given_up: Deque[_Call] = deque()
        self.refused: Optional[BaseException] = None
        # The time at which the last node was lost. None while a node answers.
        self.nodeless_since: Optional[float] = time.monotonic()

    def look(self) -> None:
        """Creates an actor on each new node. Searches for new nodes at most once per interval."""
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
        """Returns the number of calls that may be sent."""
        return sum(CALLS_PER_NODE - len(place.calls) for place in self._places.values() if place.checking is None)

    def nodes(self) -> int:
        """Returns the number of nodes that answer."""
        return sum(place.checking is None for place in self._places.values())

    def is_idle(self) -> bool:
        """Returns whether no node has scripts."""
        return not any(place.calls for place in self._places.values())

    def send(self, call: _Call) -> None:
        """Sends a call to the node with the fewest calls."""
        free = [place for place in self._places.values() if place.checking is None]
        place = min(free, key=lambda place: len(place.calls))
        place.calls[place.actor.verify.remote([line.request for line in call.lines])] = call

    def answers(self) -> Iterator[Tuple[_Call, List[Result]]]:
        """Waits for answers for at most one interval, and yields them. Adds lost calls to `again` or `given_up`."""
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
        """Removes a node and all its calls, because it is unknown which calls the node has begun."""
        place = self._places.pop(id)
        cause = getattr(error, "cause", None)
        self._losses[id] = self._losses.get(id, 0) + 1
        if isinstance(cause, (StartError, ValueError, TypeError, OSError)):
            # Do not use the node again, because it would refuse again.
            self.refused = cause
            self._losses[id] = LOSSES_IN_A_ROW_MAX
        for call in place.calls.values():
            lost = replace(call, lost=call.lost + 1)
            (self.again if lost.lost < ATTEMPTS_MAX else self.given_up).append(lost)
        _kill(place.actor)
        if self.nodes() == 0 and self.nodeless_since is None:
            self.nodeless_since = time.monotonic()

    def is_hopeless(self, seconds: float) -> bool:
        """Returns whether no node answers and waiting longer is useless."""
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
    """Reports the progress, once a second and at the end."""

    def __init__(self, tell: Optional[Callable[[Progress], None]]) -> None:
        self._tell = tell
        self._started = self._told = time.monotonic()
        self._done = self._passed = self._without_verdict = 0

    def count(self, result: Result) -> Result:
        self._done += 1
        self._passed += result.passed is True
        self._without_verdict += result.has_no_verdict()
        return result

    def tell(self, nodes: int, is_end: bool = False) -> None:
        now = time.monotonic()
        if self._tell is not None and (is_end or now - self._told >= TICK_SECONDS):
            self._told = now
            rate = self._done / max(now - self._started, 1e-9)
            self._tell(Progress(self._done, self._passed, self._without_verdict, rate, nodes))


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
    """Reads scripts. Returns the lines for a call, and results for scripts that cannot be sent as lines."""
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
    reason = f"{call.lost} nodes with this script were lost" if call.lost > 1 else "the node was lost, and there is no other node"
    for line in call.lines:
        yield without_verdict(line.id, "infra_error", reason, max(call.lost, 1), line.meta)


def _hopeless(pool: _Pool, seconds: float) -> Exception:
    if pool.refused is not None:
        return StartError(f"no node can run scripts: {pool.refused}")
    return InfraError(f"no node of the cluster has answered for {seconds:.0f} s, and there are scripts left")


# The columns of a batch that are fields of `Script`.
ASKED = ("code", "stdin", "inputs", "expect", "tests", "timeout", "memory_mb")
# The columns that `VerifyBatch` adds.
ANSWERED = ("status", "passed", "exit_code", "stdout", "stderr", "duration_ms", "attempt", "message")


class VerifyBatch:
    """A callable for `ray.data.Dataset.map_batches`, which runs it in a pool of actors.

    A batch has a column `code`, and may have `stdin`, `inputs`, `expect`, `tests`, `timeout` and `memory_mb`. Null
    means that the value is not set, also in `inputs` and in a test. The result has additional columns `status`,
    `passed` (null without a verdict, or without an expected result), `exit_code`, `stdout`, `stderr`, `duration_ms`,
    `attempt` and `message`, with `prefix` before their names. `settings` are the settings of `Verifier`. The default of
    `workers` is the number of processors that Ray assigns to the actor (`num_cpus`). Ray Data repeats the batches of
    lost actors without notice, so `attempt` counts only the attempts within one actor.
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
            raise ValueError(f"the batch has {', '.join(sorted(taken))} already; use VerifyBatch(prefix=…) for other names")
        asked = {name: [_field(name, value) for value in batch[name]] for name in ASKED if name in batch}
        scripts = (
            Script(**{name: value for name, value in zip(asked, row) if value is not None}) for row in zip(*asked.values())
        )
        results = list(self._verifier.map(scripts))
        added = {column: [getattr(result, name) for result in results] for name, column in names.items()}
        return {**batch, **added}


def _field(name: str, value: Any) -> Any:
    """Converts a value of a column to a field of `Script`. NaN becomes None."""
    value = _plain(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    if name == "memory_mb" and isinstance(value, float) and value.is_integer():
        # NumPy has a column of integers with a null as floats.
        return int(value)
    if name == "inputs" and isinstance(value, dict):
        return {file: content for file, content in value.items() if content is not None}
    if name == "tests" and isinstance(value, list):
        return [_test(test) for test in value]
    return value


def _test(test: Any) -> Any:
    """Removes the null members that Arrow adds to a struct, so that all structs of a column have the same members."""
    if not isinstance(test, dict):
        return test
    is_call = test.get("call") is not None
    # The expected value of a call may be None.
    return {name: member for name, member in test.items() if member is not None or (is_call and name == "value")}


def _plain(value: Any) -> Any:
    """Converts NumPy's arrays and scalars in a value to plain Python objects."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
