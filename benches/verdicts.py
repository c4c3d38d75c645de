#!/usr/bin/env python3
"""The cost of verdicts, measured in interleaved pairs of calls in one run.

    benches/verdicts.py [--server PATH] [--python PATH] [--peer PATH] [--rounds N | --smoke]

Each row compares two scripts, or one script on two servers. Each round runs both once, in alternating order, so that a
busy moment of the machine affects both. A row has the median of both, and the medians of their ratio and difference in
each pair with 95 % confidence intervals from order statistics.

- `print(1)` against itself shows the noise of the machine.
- A script with ten asserts against the same script with the same ten comparisons as expression statements: the cost of
  counting checks in a warm interpreter.
- The same two scripts on a server that analyses scripts and runs none: the cost of finding checks.

`--peer` names another binary, for example an earlier release. Each script is then also compared between both binaries.
Every reply is checked. A wrong answer is an error with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from contestants import REPOSITORY, SETTLE_S, Bench, Contestant, NotMeasured, Peer, Server, in_scratch, small_bench_options
from warm import wait_until_warm

PRINT = "print(1)"
COMPARISONS = [f"{number} * len(str(total)) + {number} != total" for number in range(10)]
START = "total = sum(n * n for n in range(1, 101))\n"
ASSERTS = START + "".join(f"assert {comparison}\n" for comparison in COMPARISONS) + PRINT
EXPRESSIONS = START + "".join(f"{comparison}\n" for comparison in COMPARISONS) + PRINT
SCRIPTS = {"print(1)": PRINT, "ten asserts": ASSERTS, "ten expressions": EXPRESSIONS}
PRINTED = "1"
# The quantile of the normal distribution for 95 % confidence intervals.
QUANTILE = 1.96


def main() -> int:
    interpreter = REPOSITORY / "target" / "python" / "bin" / "python"
    options = small_bench_options(__doc__.splitlines()[0], rounds=200, interpreter=interpreter, has_peer=True)
    return in_scratch(measure, options, "qwed-mcp-bench-")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    bench = Bench.prepare(options.server, Peer(options.python, options.server, {}), scratch)
    closed = replace(bench, environment={**bench.environment, "QWED_MCP_TRUSTED_CODE_EXECUTION": "false"})
    binaries = {"ours": options.server}
    if options.peer:
        binaries["peer"] = options.peer
    with contextlib.ExitStack() as running:

        def start(name: str, binary: Path, of: Bench) -> Server:
            return running.enter_context(Contestant(name, binary).start(of))

        warm = {name: start(name, binary, bench) for name, binary in binaries.items()}
        analysing = {name: start(f"{name}, closed", binary, closed) for name, binary in binaries.items()}
        for server in warm.values():
            wait_until_warm(server)
        print(f"medians of {options.rounds} pairs in ms, with 95 % intervals\n")
        print("| first | second | first | second | ratio | difference |\n|---|---|---:|---:|---:|---:|")

        def compare(run: Callable[[Server, str], float], suffix: str, servers: dict[str, Server]) -> None:
            ours = servers["ours"]
            rows = [(PRINT, ours, PRINT, ours), (ASSERTS, ours, EXPRESSIONS, ours)]
            if "peer" in servers:
                rows += [(script, ours, script, servers["peer"]) for script in SCRIPTS.values()]
            names = {script: name for name, script in SCRIPTS.items()}
            for one, first, other, second in rows:
                samples = pairs(lambda: run(first, one), lambda: run(second, other), options.rounds)
                other_name = names[other] if second is ours else f"{names[other]}, peer"
                report(names[one] + suffix, other_name + suffix, samples)

        compare(lambda server, script: server.run_script(script, PRINTED), "", warm)
        compare(analyse, ", analysis", analysing)
    return 0


def analyse(server: Server, script: str) -> float:
    """Sends a script that is analysed but not run. Returns the duration in ms."""
    time.sleep(SETTLE_S)
    elapsed_ms, text = server.call_tool("execute_python_code", {"code": script})
    if not text.startswith("BLOCKED_ADMIN_POLICY: "):
        raise server.wrong("a script", text)
    return elapsed_ms


def pairs(
    first: Callable[[], float], second: Callable[[], float], rounds: int
) -> list[tuple[float, float]]:
    """Runs both scripts once in each round, in alternating order. The first round is not measured."""
    samples = []
    for number in range(rounds + 1):
        if number % 2:
            one, other = first(), second()
        else:
            other, one = second(), first()
        if number:
            samples.append((one, other))
    return samples


def interval(values: list[float]) -> tuple[float, float, float]:
    """Returns the median, and the bounds of its 95 % confidence interval."""
    ordered = sorted(values)
    rank = max(0, math.floor((len(ordered) - QUANTILE * math.sqrt(len(ordered))) / 2))
    return statistics.median(ordered), ordered[rank], ordered[-1 - rank]


def report(first: str, second: str, samples: list[tuple[float, float]]) -> None:
    one, other = (statistics.median(column) for column in zip(*samples, strict=True))
    ratio, ratio_low, ratio_high = interval([one / other for one, other in samples])
    difference, low, high = interval([one - other for one, other in samples])
    print(f"| {first} | {second} | {one:.3f} | {other:.3f} | {ratio:.3f} ({ratio_low:.3f} to {ratio_high:.3f}) "
          f"| {difference:+.3f} ({low:+.3f} to {high:+.3f}) |")


if __name__ == "__main__":
    sys.exit(main())
