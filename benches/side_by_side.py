#!/usr/bin/env python3
"""Compares our `qwed-mcp` with the Python implementation, measured in one run.

    benches/side_by_side.py [--server PATH] [--rounds N | --smoke] [--json FILE]

Drives both servers with raw JSON-RPC over pipes, in turn (ours, theirs, ours, theirs …), so that a busy moment of the
machine affects both. Every reply is checked; a wrong answer fails its measurement. The table has for each row whether
our target is met. A missed target does not fail the bench: the exit code is 1 only if a measurement failed, and 2 for a
bad command line.

The Python implementation comes from PyPI into a virtual environment below `target/peer/` and stays there until
`REQUIREMENTS` or the interpreter changes. The scripts of both servers run under that environment's interpreter.

The driver adds little to the numbers: it starts processes with `os.posix_spawn` (a vfork in C, no Python between fork
and exec, descriptors are close-on-exec), reads the clock with `time.perf_counter_ns`, and builds and parses JSON
outside of the timed part. Two system calls and the wake-up of a read remain, some ten microseconds.

Linux only, because resident memory comes from /proc. Needs Python 3.11 or newer and only its standard library.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from contestants import (
    ENVIRONMENT_PASSED_ON,
    REPOSITORY,
    ROUNDS_SMOKE,
    Bench,
    Contestant,
    NotMeasured,
    Server,
    descendants,
    install_peer,
    proportional_mb,
    resident_mb,
)

SERVER_DEFAULT = REPOSITORY / "target" / "release" / "qwed-mcp"
TOOLS = {"execute_python_code", "verification_status"}
ROUNDS_DEFAULT = 50
# One write of this many calls is about 17 KiB, and a pipe holds 64 KiB. So the write ends before any reply is read.
PIPELINED_CALLS = 100
IDLE_S = 1.0

SYMPY_SCRIPT = """\
from sympy import Symbol, diff
t = Symbol("t")
slope = diff(t**3, t)
print("d/dt t^3 =", slope)
assert slope == 3 * t**2, slope
print("VERIFIED")
"""
SYMPY_STDOUT = "d/dt t^3 = 3*t**2\nVERIFIED"
WHICH_INTERPRETER = "import sys\nprint(sys.version)\nprint(sys.prefix)"
BLOCKED_TEXT = re.compile(
    r"BLOCKED: QWED blocked python execution: .*\beval\b.*\(verification_id=([0-9a-f]{64})\)", re.S
)

Side = TypeVar("Side", Contestant, Server)


# --- Command line and report ------------------------------------------------------------------------------------------


def main() -> int:
    options = parse_options()
    if not sys.platform.startswith("linux"):
        print("side_by_side.py reads /proc and runs on Linux only", file=sys.stderr)
        return 2
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, lambda number, _: sys.exit(128 + number))
    load_before = os.getloadavg()[0]

    try:
        if not os.access(options.server, os.X_OK):
            raise NotMeasured(f"no server at {options.server}: run `cargo build --release`, or name it with --server")
        peer = install_peer()
    except NotMeasured as failure:
        print(f"nothing measured: {failure}", file=sys.stderr)
        return 1

    # Without this, a pause of our garbage collector would be part of a measured reply. The driver allocates little.
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="side_by_side.") as scratch:
        bench = Bench.prepare(options.server, peer, Path(scratch))
        rows, not_measured = measure_all(bench, options.rounds)

    machine = {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
        "rounds": options.rounds,
        "passed_on": {name: os.environ[name] for name in ENVIRONMENT_PASSED_ON if name in os.environ},
        "peer": peer.packages,
    }
    print_report(machine, rows, bench.notes, not_measured)
    if options.json:
        report = {"machine": machine, "rows": [row.summary() for row in rows], "notes": bench.notes,
                  "not_measured": not_measured}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if not_measured else 0


def parse_options() -> argparse.Namespace:
    def round_count(text: str) -> int:
        rounds = int(text)
        if rounds < 1:
            raise argparse.ArgumentTypeError("at least 1")
        return rounds

    parser = argparse.ArgumentParser(description="Measure our qwed-mcp beside the Python implementation.")
    parser.add_argument("--server", type=Path, default=SERVER_DEFAULT, metavar="PATH",
                        help="our server (default: target/release/qwed-mcp of this repository)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--rounds", type=round_count, default=ROUNDS_DEFAULT, metavar="N",
                        help=f"server starts measured; the other rows scale with it (default: {ROUNDS_DEFAULT})")
    effort.add_argument("--smoke", action="store_const", const=ROUNDS_SMOKE, dest="rounds",
                        help=f"the same as --rounds {ROUNDS_SMOKE}: for CI, well under a minute after the installation")
    options = parser.parse_args()
    options.server = options.server.absolute()
    return options


def print_report(machine: dict[str, Any], rows: list[Row], notes: list[str], not_measured: list[str]) -> None:
    peer = ", ".join(f"{name} {version}" for name, version in machine["peer"].items())
    print(f"theirs: {peer}; Python {machine['python']}; {machine['cores']} cores, Linux {machine['kernel']}; "
          f"load {machine['load_before']:.1f} before, {machine['load_after']:.1f} after; --rounds {machine['rounds']}")
    for name, value in machine["passed_on"].items():
        print(f"with {name}={value}")
    print()

    heading = ("", "", "ours", "p95", "theirs", "p95", "ratio", "target for ours")
    table = [heading, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(heading))]
    for line in table:
        # Words are left-aligned, numbers right-aligned.
        cells = [cell.ljust(width) if column in (0, 1, 7) else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths, strict=True))]
        print("  ".join(cells).rstrip())
    print("\nMedians; p95 is the best value of the worst twentieth. The ratio is how many times better ours is.")
    for note in notes:
        print(f"note: {note}")
    for failure in not_measured:
        print(f"NOT MEASURED: {failure}")


@dataclass
class Row:
    """One row of the table: its title, our target, and the samples of both servers."""

    title: str
    unit: str
    decimals: int
    target: float | None = None
    higher_is_better: bool = False
    # A difference may be negative, so it has no ratio.
    is_difference: bool = False
    remark: str = ""
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    failed: bool = False

    def tail(self, samples: list[float]) -> float:
        """Returns the 95th percentile (nearest rank) towards the worse end."""
        ranked = sorted(samples, reverse=self.higher_is_better)
        return ranked[-(-len(ranked) * 95 // 100) - 1]

    def ratio(self) -> float | None:
        """Returns how many times better ours is."""
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        better, worse = (theirs, ours) if self.higher_is_better else (ours, theirs)
        return worse / better if better > 0 and worse > 0 and not self.is_difference else None

    def meets_target(self) -> bool | None:
        if self.target is None:
            return None
        median = statistics.median(self.ours)
        return median >= self.target if self.higher_is_better else median <= self.target

    def cells(self) -> tuple[str, ...]:
        if self.failed:
            return (self.title, self.unit, "-", "-", "-", "-", "-", "not measured")

        def number(value: float) -> str:
            return f"{value:,.{self.decimals}f}"

        ratio, met = self.ratio(), self.meets_target()
        verdict = self.remark
        if self.target is not None:
            relation = "≥" if self.higher_is_better else "≤"
            verdict = f"{relation} {self.target:,g} {self.unit}: {'met' if met else 'MISSED'} {self.remark}"
        return (self.title, self.unit, number(statistics.median(self.ours)), number(self.tail(self.ours)),
                number(statistics.median(self.theirs)), number(self.tail(self.theirs)),
                "" if ratio is None else f"{ratio:,.1f}", verdict.rstrip())

    def summary(self) -> dict[str, Any]:
        """Returns the row for the JSON file."""
        about = {"title": self.title, "unit": self.unit, "target": self.target, "remark": self.remark}
        if self.failed:
            return {**about, "measured": False}

        def side(samples: list[float]) -> dict[str, float]:
            return {"count": len(samples), "median": statistics.median(samples), "p95": self.tail(samples),
                    "min": min(samples), "max": max(samples)}

        return {**about, "measured": True, "ours": side(self.ours), "theirs": side(self.theirs),
                "ratio": self.ratio(), "met": self.meets_target()}


# --- The measurements -------------------------------------------------------------------------------------------------


def measure_all(bench: Bench, rounds: int) -> tuple[list[Row], list[str]]:
    """Runs every measurement. If a measurement fails, only its own rows are missing."""
    start = Row("start to initialize reply", "ms", 2, target=10)
    memory = Row("idle memory, server process", "MB", 2, target=10)
    family_memory = Row("idle memory, with descendants", "MB", 2)
    blocked = Row("blocked call: eval('1')", "ms", 3, target=0.2)
    printing = Row("print(1), whole call", "ms", 2)
    overhead = Row("print(1), beyond bare python", "ms", 2, target=1, is_difference=True)
    sympy = Row("SymPy derivative", "ms", 1)
    pipelined = Row(f"{PIPELINED_CALLS} pipelined status calls", "/s", 0, target=50_000, higher_is_better=True)

    plan: list[tuple[str, list[Row], Callable[[], None]]] = [
        ("start", [start], lambda: measure_start(bench, rounds, start)),
        ("memory", [memory, family_memory], lambda: measure_memory(bench, max(1, rounds // 10), memory, family_memory)),
        ("blocked call", [blocked], lambda: measure_blocked_call(bench, rounds * 20, blocked)),
        ("print(1)", [printing, overhead], lambda: measure_print(bench, rounds * 2, printing, overhead)),
        ("SymPy", [sympy], lambda: measure_sympy(bench, max(2, rounds // 5), sympy)),
        ("pipelined calls", [pipelined], lambda: measure_pipelined_calls(bench, rounds * 2, pipelined)),
    ]
    not_measured = []
    for name, rows, measure in plan:
        began = time.monotonic()
        try:
            measure()
        except NotMeasured as failure:
            not_measured.append(f"{name}: {failure}")
            for row in rows:
                row.failed = True
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return [row for _, rows, _ in plan for row in rows], not_measured


def measure_start(bench: Bench, rounds: int, row: Row) -> None:
    """Measures the time from the spawn until the reply to `initialize` is read."""
    for measured_round in warmed_up(rounds, unmeasured=1):
        for contestant, samples in in_turn((bench.ours, bench.theirs), row):
            with contestant.start(bench) as server:
                if measured_round:
                    samples.append(server.start_ms)


def measure_memory(bench: Bench, rounds: int, process_row: Row, family_row: Row) -> None:
    """Measures the resident memory (10^6 bytes) of an idle server that has listed its tools.

    The sum over the descendants uses proportional memory, so it counts a shared page once.
    """
    for _ in range(rounds):
        for contestant, process_samples, family_samples in in_turn((bench.ours, bench.theirs), process_row, family_row):
            with contestant.start(bench) as server:
                result = server.request("tools/list", {})
                if TOOLS - {tool.get("name") for tool in result.get("tools", [])}:
                    raise server.wrong("tools/list", json.dumps(result))
                time.sleep(IDLE_S)
                process_samples.append(resident_mb(server.pid))
                # If a descendant exits between the listing and the reading, it counts as 0.
                family = [server.pid, *descendants(server.pid)]
                family_samples.append(sum(proportional_mb(pid) for pid in family))


def measure_blocked_call(bench: Bench, rounds: int, row: Row) -> None:
    """Measures a call that the analysis refuses. No interpreter starts."""
    verification_ids = set()
    with bench.both_servers() as servers:
        for measured_round in warmed_up(rounds, unmeasured=20):
            for server, samples in in_turn(servers, row):
                elapsed_ms, text = server.call_tool("execute_python_code", {"code": "eval('1')"})
                match = BLOCKED_TEXT.fullmatch(text)
                if match is None or match[1] in verification_ids:
                    raise server.wrong("a blocked call", text)
                verification_ids.add(match[1])
                if measured_round:
                    samples.append(elapsed_ms)


def measure_print(bench: Bench, rounds: int, whole_row: Row, overhead_row: Row) -> None:
    """Measures the smallest script, and in the same round a bare interpreter with this script."""
    bare_samples = []
    with bench.both_servers() as servers:
        check_interpreter(bench, servers)
        for measured_round in warmed_up(rounds, unmeasured=3):
            bare_ms, stdout = bench.run_bare("print(1)")
            if stdout != "1\n":
                raise NotMeasured(f"the bare interpreter printed {stdout!r}")
            if measured_round:
                bare_samples.append(bare_ms)
            for server, whole_samples, overhead_samples in in_turn(servers, whole_row, overhead_row):
                elapsed_ms = server.run_script("print(1)", expected_stdout="1")
                if measured_round:
                    whole_samples.append(elapsed_ms)
                    overhead_samples.append(elapsed_ms - bare_ms)
    whole_row.remark = f"(bare: {statistics.median(bare_samples):.2f}, p95 {whole_row.tail(bare_samples):.2f})"


def measure_sympy(bench: Bench, rounds: int, row: Row) -> None:
    """Measures the derivative example of the tools reference. A model uses such scripts to check its algebra."""
    with bench.both_servers() as servers:
        check_interpreter(bench, servers)
        for measured_round in warmed_up(rounds, unmeasured=1):
            for server, samples in in_turn(servers, row):
                elapsed_ms = server.run_script(SYMPY_SCRIPT, expected_stdout=SYMPY_STDOUT)
                if measured_round:
                    samples.append(elapsed_ms)


def measure_pipelined_calls(bench: Bench, rounds: int, row: Row) -> None:
    """Measures calls per second if many calls are sent in one write, until the last reply is read."""
    with bench.both_servers() as servers:
        for measured_round in warmed_up(rounds, unmeasured=2):
            for server, samples in in_turn(servers, row):
                job_ids = [str(uuid.uuid4()) for _ in range(PIPELINED_CALLS)]
                calls = [{"job_id": job_id} for job_id in job_ids]
                elapsed_ms, texts = server.call_tool_pipelined("verification_status", calls)
                for job_id, text in zip(job_ids, texts, strict=True):
                    if text != f"Error: Job ID '{job_id}' not found or expired.":
                        raise server.wrong("the status of an unknown job", text)
                if measured_round:
                    samples.append(PIPELINED_CALLS / elapsed_ms * 1000)


def in_turn(sides: tuple[Side, Side], *rows: Row) -> Iterator[tuple[Any, ...]]:
    """Yields ours, then theirs, each with the sample lists of the rows."""
    ours, theirs = sides
    yield (ours, *(row.ours for row in rows))
    yield (theirs, *(row.theirs for row in rows))


def check_interpreter(bench: Bench, servers: tuple[Server, Server]) -> None:
    """Fails if the servers use different interpreters, because the bench would then compare the interpreters."""
    _, expected = bench.run_bare(WHICH_INTERPRETER)
    for server in servers:
        server.run_script(WHICH_INTERPRETER, expected_stdout=expected.rstrip())


def warmed_up(rounds: int, unmeasured: int) -> Iterator[bool]:
    """Yields `False` for each round that only warms up caches, and then `True` for each counted round."""
    yield from [False] * unmeasured
    yield from [True] * rounds

if __name__ == "__main__":
    sys.exit(main())
