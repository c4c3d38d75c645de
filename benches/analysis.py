#!/usr/bin/env python3
"""Compares the time of our analysis with the Python implementation's.

    benches/analysis.py [--smoke]

Times both analyses in turn, on a script of 300 bytes and on the standard library's `argparse.py`. Each time is from the
text to the findings, in a process that has warmed up. The table has the smallest of several medians of each analysis,
and the ratio. A second table shows how our time grows with the size of sources that are hard to analyse. A missed
target does not fail the bench. The exit code is 1 only if a measurement failed. Our analysis is
`cargo bench --bench analysis`. The Python implementation comes from PyPI into `target/peer/`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from contestants import REPOSITORY, install_peer

SCRIPT = """\
from sympy import symbols, diff, integrate
x = symbols('x')
expr = x**3 + 2*x
d = diff(expr, x)
print(f'derivative: {d}')
assert str(d) == '3*x**2 + 2', 'Mismatch!'
total = 0
for i in range(10):
    total += i * i
print(total, integrate(d, x))
if total != 285:
    raise SystemExit(1)
print('VERIFIED')
"""

# Prints the median duration of an analysis, in ns. The second argument is the time to measure, in s.
PEER = """
import statistics, sys, time
from qwed_mcp.engines.code_engine import analyze_python
with open(sys.argv[1], encoding="utf-8") as file:
    source = file.read()
times, end = [], time.perf_counter() + float(sys.argv[2])
while time.perf_counter() < end or len(times) < 5:
    begun = time.perf_counter_ns()
    analyze_python(source)
    times.append(time.perf_counter_ns() - begun)
print(int(statistics.median(times)))
"""

TARGETS_NS = {"script of 300 bytes": 20_000, "argparse.py": 3_000_000}
# The maximum time for 1 MiB, and the maximum exponent of its growth with the size. The exponent may be a little above
# 1, because caches are small.
WORST_NS = 1_000_000_000
EXPONENT_MAX = 1.2
# The kinds of source that `--smoke` measures.
SMOKE_SHAPES = ["plain code", "star imports", "long text formatted", "nested comprehensions"]
# The minimum time for which the exponent is checked. For shorter times, the exponent is only noise.
NOISE_NS = 100_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--smoke", action="store_true", help="one short round, to test the bench itself")
    smoke = parser.parse_args().smoke
    rounds, seconds = (1, 0.1) if smoke else (5, 0.5)
    peer, ours = install_peer(), built()
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch, "script.py")
        script.write_text(SCRIPT)
        files = {"script of 300 bytes": script, "argparse.py": Path(sysconfig.get_path("stdlib"), "argparse.py")}
        print(f"{'':22}{'ours':>12}{'theirs':>12}{'ratio':>8}   target")
        for name, file in files.items():
            medians = [(our_median(ours, file), their_median(peer.interpreter, file, seconds)) for _ in range(rounds)]
            our_ns, their_ns = (min(column) for column in zip(*medians, strict=True))
            target = TARGETS_NS[name]
            met = "met" if our_ns <= target else "NOT met"
            print(
                f"{name:22}{our_ns / 1e3:9.1f} µs{their_ns / 1e3:9.0f} µs{their_ns / our_ns:8.1f}"
                f"   {target / 1e3:.0f} µs: {met}"
            )
    print_growth(ours, SMOKE_SHAPES if smoke else [])
    return 0


def print_growth(ours: Path, shapes: list[str]) -> None:
    """Prints how our time grows from 512 KiB to 1 MiB, as an exponent of the size."""
    rows: dict[str, list[dict]] = {}
    for row in run([ours, "--worst", "--json", *shapes]):
        rows.setdefault(row["name"], []).append(row)
    print(f"\n{'hard on an analysis':38}{'256 KiB':>10}{'512 KiB':>10}{'1 MiB':>10}  exponent   steps of the bound")
    for name, sizes in sorted(rows.items(), key=lambda item: -item[1][-1]["least_ns"]):
        middle, large = sizes[-2:]
        exponent = math.log(large["least_ns"] / middle["least_ns"]) / math.log(large["bytes"] / middle["bytes"])
        times = "".join(f"{row['least_ns'] / 1e6:7.1f} ms" for row in sizes)
        is_linear = exponent <= EXPONENT_MAX or large["least_ns"] < NOISE_NS
        verdict = "" if is_linear and large["least_ns"] <= WORST_NS else ": TOO MUCH"
        print(f"{name:38}{times}{exponent:10.2f}{large['steps'] / large['steps_max']:10.0%}{verdict}")


def built() -> Path:
    """Builds the bench as `.ci/run worst_inputs` does. Returns its path."""
    command = ["cargo", "bench", "--locked", "--package", "qwed-safety", "--bench", "analysis", "--no-run", "--message-format", "json"]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("target", {}).get("name") == "analysis" and message.get("executable"):
            return Path(message["executable"])
    sys.exit("cargo built no bench")


def our_median(ours: Path, file: Path) -> int:
    (row,) = run([ours, str(file)])
    return row["median_ns"]


def their_median(interpreter: Path, file: Path, seconds: float) -> int:
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    command = [interpreter, "-c", PEER, str(file), str(seconds)]
    return int(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def run(command: list) -> list[dict]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
