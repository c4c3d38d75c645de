"""Measures latency, an agent's run, the rate of several clients, and memory. Every result is checked.

If a peer cannot run a script, the result is the reason instead of a time.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from compared.catalog import Entry, Ground
from compared.ground import launched
from compared.session import Peak, Session, kill_all_children
from contestants import NotMeasured

TIMEOUT_S = 30.0
ROUNDS_MIN = 3
CLIENTS = (1, 2, 8)
MEMORY_S = 1.5
# The time until a warm peer is idle. This server starts a second interpreter after the first.
IDLE_S = 4.0

SCRIPTS: dict[str, tuple[str, str]] = {
    "print": ("print(1)", "1"),
    "arithmetic": (
        "value = 10000 * (1 + 0.075 / 4) ** 20\nassert round(value, 2) == 14499.48\n"
        "total = sum(n * n for n in range(1, 1001))\nassert total == 333833500\nprint(round(value, 2), total)",
        "14499.48 333833500"),
    "JSON": (
        "import json\nrows = json.loads('[{\"net\": 100, \"tax\": 19}, {\"net\": 50, \"tax\": 9.5}]')\n"
        "gross = [row['net'] + row['tax'] for row in rows]\nassert sum(gross) == 178.5\nprint(json.dumps(gross))",
        "[119, 59.5]"),
    "NumPy": (
        "import numpy as np\nmatrix = np.array([[4.0, 1.0], [2.0, 3.0]])\n"
        "values = sorted(np.linalg.eigvals(matrix).real)\nassert np.allclose(values, [2, 5])\n"
        "print(round(float(values[0]), 6), round(float(values[1]), 6))",
        "2.0 5.0"),
    "SymPy": (
        "from sympy import Symbol, diff\nt = Symbol('t')\nslope = diff(t**3, t)\n"
        "assert slope == 3 * t**2\nprint(slope)",
        "3*t**2"),
    "Z3": (
        "from z3 import Int, Solver, unsat\nx = Int('x')\nsolver = Solver()\nsolver.add(x > 3, x < 4)\n"
        "assert solver.check() == unsat\nprint(solver.check())",
        "unsat"),
}
FIRST = "print"
COMMANDS = [
    "prices = [120, 80, 45, 200, 15]\nprint(len(prices))",
    "total = sum(prices)\nprint(total)",
    "mean = total / len(prices)\nprint(mean)",
    "cheap = [price for price in prices if price < mean]\nprint(cheap)",
    "taxed = [round(price * 1.19, 2) for price in prices]\nprint(taxed)",
    "def median(values):\n    ordered = sorted(values)\n    return ordered[len(ordered) // 2]\nprint(median(prices))",
    "by_size = {}\nfor price in prices:\n    by_size[price > 100] = by_size.get(price > 100, 0) + price\n"
    "print(by_size)",
    "growth = 1.0\nfor year in range(10):\n    growth = growth * 1.03\nprint(round(growth, 4))",
    "assert total == sum(by_size.values())\nprint('consistent')",
    "print('median', median(taxed), 'of', total)",
]
PRINTED = ["5", "460", "92.0", "[80, 45, 15]", "[142.8, 95.2, 53.55, 238.0, 17.85]", "80", "{True: 320, False: 140}",
           "1.3439", "consistent", "median 95.2 of 460"]


@dataclass
class Figures:
    """The figures of one peer. If a figure is missing, the peer cannot run the script."""

    warm_ms: dict[str, float] = field(default_factory=dict)
    cold_ms: dict[str, float] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    first_result_ms: float | None = None
    agent_ms: float | None = None
    keeps_state: bool = False
    rates: dict[int, float] = field(default_factory=dict)
    idle_mb: float | None = None
    run_mb: float | None = None


def checked(session: Session, name: str) -> float:
    """Runs one of the six scripts. Returns its duration in ms."""
    code, printed = SCRIPTS[name]
    reply = session.run(code, TIMEOUT_S)
    if reply.printed != printed:
        last = (reply.error or reply.stdout).strip().splitlines()
        raise NotMeasured(last[-1][:200] if last else "no output")
    return reply.elapsed_ms


@contextlib.contextmanager
def running(entries: list[Entry], ground: Ground) -> Iterator[dict[str, Session]]:
    """Starts a session of each peer."""
    sessions: dict[str, Session] = {}
    try:
        for entry in entries:
            sessions[entry.name] = launched(entry, ground)
        yield sessions
    finally:
        for session in sessions.values():
            session.stop()
        kill_all_children(set())


def latency(entries: list[Entry], ground: Ground, figures: dict[str, Figures], rounds: int, seconds: float) -> None:
    """Measures warm runs of each script, in interleaved rounds. Each script gets at most this many seconds."""
    with running(entries, ground) as sessions:
        for name, (code, _) in SCRIPTS.items():
            able = []
            for entry in entries:
                try:
                    sessions[entry.name].ask("prepare", 90.0, code=code, timeout_s=TIMEOUT_S)
                    checked(sessions[entry.name], name)
                    able.append(entry.name)
                except NotMeasured as error:
                    figures[entry.name].cannot[name] = str(error)
            samples: dict[str, list[float]] = {peer: [] for peer in able}
            began = time.monotonic()
            for number in range(rounds):
                if number >= ROUNDS_MIN and time.monotonic() - began > seconds:
                    break
                for peer in able:
                    samples[peer].append(checked(sessions[peer], name))
            for peer in able:
                figures[peer].warm_ms[name] = statistics.median(samples[peer])
        agent_runs(entries, sessions, figures, max(ROUNDS_MIN, rounds // 2))


def agent_runs(entries: list[Entry], sessions: dict[str, Session], figures: dict[str, Figures], rounds: int) -> None:
    """Measures ten commands. Each uses the variables of earlier commands."""
    request = {"commands": COMMANDS, "printed": PRINTED, "timeout_s": TIMEOUT_S}
    samples: dict[str, list[float]] = {entry.name: [] for entry in entries}
    for _ in range(rounds):
        for peer in list(samples):
            reply = sessions[peer].ask("agent", TIMEOUT_S, **request)
            if not reply["ok"]:
                figures[peer].cannot["agent run"] = reply["error"].strip()[-200:]
                del samples[peer]
                continue
            samples[peer].append(reply["ms"])
            figures[peer].keeps_state = reply["keeps_state"]
    for peer, took in samples.items():
        figures[peer].agent_ms = statistics.median(took)


def cold(entries: list[Entry], ground: Ground, figures: dict[str, Figures], rounds: int) -> None:
    """Measures the first script of a peer that has just started, and the time from the start to the first result."""
    samples: dict[tuple[str, str], list[float]] = {}
    firsts: dict[str, list[float]] = {}
    for number in range(rounds):
        for name in SCRIPTS:
            for entry in entries:
                if name in figures[entry.name].cannot or (entry.is_always_cold and name != FIRST):
                    continue
                # For a script that takes seconds, one sample is enough.
                if number and min(samples[entry.name, name]) > 1500:
                    continue
                session = launched(entry, ground)
                try:
                    elapsed_ms = checked(session, name)
                finally:
                    session.stop()
                samples.setdefault((entry.name, name), []).append(elapsed_ms)
                if name == FIRST:
                    firsts.setdefault(entry.name, []).append(session.start_ms + elapsed_ms)
    for (peer, name), took in samples.items():
        figures[peer].cold_ms[name] = statistics.median(took)
    for peer, took in firsts.items():
        figures[peer].first_result_ms = statistics.median(took)
    for entry in entries:
        if entry.is_always_cold:
            figures[entry.name].cold_ms = dict(figures[entry.name].warm_ms)


def rate(entry: Entry, ground: Ground, figures: Figures, clients: tuple[int, ...], seconds: float) -> None:
    """Measures how many scripts per second several clients run at once. Each client has its own peer."""
    code, printed = SCRIPTS["arithmetic"]
    request = {"code": code, "printed": printed, "seconds": seconds, "timeout_s": TIMEOUT_S}
    with contextlib.ExitStack() as stack:
        sessions: list[Session] = []
        for count in clients:
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                # Starts the sessions one after the other, because only this thread may fork.
                while len(sessions) < count:
                    sessions.append(launched(entry, ground))
                    stack.callback(sessions[-1].stop)
                list(pool.map(lambda session: session.ask("prepare", 90.0, code=code, timeout_s=TIMEOUT_S), sessions))
                replies = list(pool.map(lambda session: session.ask("rate", seconds + TIMEOUT_S, **request), sessions))
            if failed := [reply for reply in replies if not reply["ok"]]:
                raise NotMeasured(failed[0]["error"])
            figures.rates[count] = sum(reply["runs"] / reply["seconds"] for reply in replies)


def memory(entry: Entry, ground: Ground, figures: Figures) -> None:
    """Measures the memory of an idle peer after a script, and the additional memory while it runs scripts."""
    code, printed = SCRIPTS["arithmetic"]
    session = launched(entry, ground)
    try:
        session.ask("prepare", 90.0, code=code, timeout_s=TIMEOUT_S)
        time.sleep(IDLE_S)
        figures.idle_mb = session.memory_mb(entry.counts_driver)
        peak = Peak()
        with peak.sampled(session, entry.counts_driver):
            session.ask("rate", 60.0, code=code, printed=printed, seconds=MEMORY_S, timeout_s=TIMEOUT_S)
        figures.run_mb = max(0.0, peak.memory_mb - figures.idle_mb)
    finally:
        session.stop()


def each(
    what: str, entries: list[Entry], figures: dict[str, Figures], measure: Callable[[Entry, Figures], None]
) -> None:
    """Measures one peer after the other. A failure is recorded, and the other peers are still measured."""
    for entry in entries:
        try:
            measure(entry, figures[entry.name])
        except NotMeasured as error:
            figures[entry.name].cannot[what] = str(error)[-300:]
            print(f"{entry.name}: {what}: {error}", file=sys.stderr)
        finally:
            kill_all_children(set())
