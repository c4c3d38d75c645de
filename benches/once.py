#!/usr/bin/env python3
"""Measures the gain from reused results, and the duration of one reuse.

    benches/once.py [--server PATH] [--python PATH] [--rounds N | --smoke]

First runs a batch with and without `--once`. 60 % of its lines repeat an earlier script, in the same random order
each time. The target is twice the rate. Then measures calls over stdio with `QWED_MCP_ANSWER_ONCE=on`, in turn: a
reused result, a ping, and a refused call. The target for a reused result is at most 0.5 ms more than a ping. Then
compares runs of different scripts with and without the setting. Finally compares results that another process has
stored, with receipts, with results in memory. The target is at most 0.5 ms more.

Every answer is checked. A missed target does not fail the bench. A wrong answer is an error with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from contestants import REPOSITORY, Bench, Contestant, NotMeasured, Peer, Server, in_scratch, small_bench_options
from verdicts import interval

LINES, LINES_SMOKE = 20_000, 300
DUPLICATES = 0.6
SCRIPT = "import math\nprint(math.isqrt({number}), sum(range(1_000)))"
HIT_MS_MAX, GAIN_MIN = 0.5, 2.0


def main() -> int:
    interpreter = REPOSITORY / "target" / "python" / "bin" / "python"
    options = small_bench_options(__doc__.splitlines()[0], rounds=300, interpreter=interpreter)
    return in_scratch(measure, options, "qwed-mcp-bench-")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    bench = Bench.prepare(options.server, Peer(options.python, options.server, {}), scratch)
    lines = LINES_SMOKE if "--smoke" in sys.argv else LINES
    measure_batches(bench, lines)
    measure_calls(bench, options.rounds)
    measure_files(bench, options.rounds)
    return 0


def measure_batches(bench: Bench, lines: int) -> None:
    numbers = list(range(round(lines * (1 - DUPLICATES))))
    numbers += random.Random(1).choices(numbers, k=lines - len(numbers))
    random.Random(2).shuffle(numbers)
    source = bench.scratch / "scripts.jsonl"
    scripts = (json.dumps({"code": SCRIPT.format(number=number)}) + "\n" for number in numbers)
    source.write_text("".join(scripts), encoding="utf-8")
    plain, same, once = (run_batch(bench, source, lines, option) for option in ([], ["--deterministic"], ["--once"]))
    print(f"{lines} lines, {DUPLICATES:.0%} duplicates: {plain:.1f} s, with --deterministic {same:.1f} s, with --once {once:.1f} s")
    for name, seconds in (("deterministic runs", same), ("warm runs", plain)):
        gain = seconds / once
        print(f"  {gain:.2f} times as fast as {name} (aim {GAIN_MIN:g}: {'met' if gain >= GAIN_MIN else 'MISSED'})")


def run_batch(bench: Bench, source: Path, lines: int, options: list[str]) -> float:
    """Runs a batch. Returns its duration in seconds."""
    command = [str(bench.ours.command), "run", "--batch", str(source), "--ordered", "--progress", "none", *options]
    began = time.perf_counter()
    ended = subprocess.run(command, env=bench.environment, capture_output=True, check=False)
    seconds = time.perf_counter() - began
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    if ended.returncode != 0 or len(answers) != lines or any(answer["status"] != "ok" for answer in answers):
        raise NotMeasured(f"a batch failed: {ended.stderr[-2000:]!r}")
    cached = sum(answer.get("cached", False) for answer in answers)
    expected = round(lines * DUPLICATES) if "--once" in options else 0
    if cached != expected:
        raise NotMeasured(f"{cached} results were used again, expected {expected}")
    return seconds


def measure_calls(bench: Bench, rounds: int) -> None:
    same = replace(bench, environment=dict(bench.environment, QWED_MCP_DETERMINISTIC="on"))
    once = replace(bench, environment=dict(same.environment, QWED_MCP_ANSWER_ONCE="on"))
    with Contestant("once", bench.ours.command).start(once) as server, bench.ours.start(same) as other:
        call(other, "print(6 * 7)", "42")
        call(server, "print(6 * 7)", "42")
        hits, pings, refusals = [], [], []
        for _ in range(rounds):
            hits.append(call(server, "print(6 * 7)", "42", is_cached=True))
            pings.append(server.timed_request("ping", {})[0])
            refusals.append(refused(server))
        show("a result that is used again", hits)
        show("a ping", pings)
        show("a refused call", refusals)
        difference = statistics.median(hits) - statistics.median(pings)
        print(f"a result takes {difference:.3f} ms more than a ping (aim {HIT_MS_MAX:g}: {'met' if difference <= HIT_MS_MAX else 'MISSED'})")
        pairs = [different(server, other, number) for number in range(rounds)]
    ratio, low, high = interval([one / two for one, two in pairs])
    print(f"different scripts, deterministic, with the setting next to without: {ratio:.3f} ({low:.3f} to {high:.3f})")


def measure_files(bench: Bench, rounds: int) -> None:
    environment = dict(
        bench.environment, QWED_MCP_DATA_DIR=str(bench.scratch / "data"), QWED_MCP_RECEIPTS=str(bench.scratch / "receipts"),
        QWED_MCP_DETERMINISTIC="on", QWED_MCP_ANSWER_ONCE="on",
    )
    subprocess.run([bench.ours.command, "receipt", "keygen"], env=environment, capture_output=True, check=True)
    bench = replace(bench, environment=environment)
    pairs = []
    with bench.ours.start(bench) as first, Contestant("later", bench.ours.command).start(bench) as later:
        call(later, "print(0)", "0")
        for number in range(1, rounds + 1):
            script = f"print({number} * 3)"
            call(first, script, str(number * 3))
            pairs.append([call(later, script, str(number * 3), is_cached=True) for _ in range(2)])
    difference, low, high = interval([of_file - of_memory for of_file, of_memory in pairs])
    print(f"a result in a file takes {difference:.3f} ms more than one in memory ({low:.3f} to {high:.3f}; "
          f"aim {HIT_MS_MAX:g}: {'met' if low <= HIT_MS_MAX else 'MISSED'})")


def different(server: Server, other: Server, number: int) -> tuple[float, float]:
    """Runs a new script on both servers, in alternating order. Returns the durations in ms."""
    script = f"print({number} * 3)"
    order = (server, other) if number % 2 else (other, server)
    times = {each.name: call(each, script, str(number * 3)) for each in order}
    return times[server.name], times[other.name]


def call(server: Server, script: str, printed: str, is_cached: bool = False) -> float:
    """Runs a script that must print a text. Returns the duration in ms."""
    arguments = {"name": "execute_python_code", "arguments": {"code": script}}
    elapsed_ms, result = server.timed_request("tools/call", arguments)
    expected = f"STDOUT:\n{printed}\n\nExecution completed successfully."
    if result["content"][0]["text"] != expected or ("qwed.ai/cached" in result["_meta"]) != is_cached:
        raise server.wrong("a script", json.dumps(result))
    return elapsed_ms


def refused(server: Server) -> float:
    arguments = {"name": "execute_python_code", "arguments": {"code": "eval('1')"}}
    elapsed_ms, result = server.timed_request("tools/call", arguments)
    if not result["isError"]:
        raise server.wrong("a refused script", json.dumps(result))
    return elapsed_ms


def show(title: str, times: list[float]) -> None:
    middle, low, high = interval(times)
    print(f"{title}: {middle:.3f} ms ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    sys.exit(main())
