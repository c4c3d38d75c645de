#!/usr/bin/env python3
"""Measures whether a test by call is slower than a test by standard input, in one batch.

    benches/calls.py [--server PATH] [--rounds PAIRS | --smoke]

Each pair is a line with a test by standard input and a line with a test by call. They are sent one after the other,
in alternating order. The rate is for one worker with warm interpreters. All answers are checked. A missed target
does not fail the bench. A wrong answer is an error with exit code 1.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from contestants import NotMeasured, in_scratch, small_bench_options

PAIRS = 400
TARGET = 0.9
WARM_UP_MAX = 1000
BY_STDIN = {"code": "def solve(n):\n    return n * n\nprint(solve(int(input())))", "tests": [{"stdin": "12\n", "stdout": "144\n"}]}
BY_CALL = {"code": "def solve(n):\n    return n * n", "tests": [{"call": "solve(12)", "value": 144}]}


class Batch:
    """A batch that answers one line at a time."""

    def __init__(self, server: Path, scratch: Path) -> None:
        environment = {
            **{name: os.environ[name] for name in ("PATH", "QWED_MCP_PYTHON") if name in os.environ},
            "HOME": str(scratch),
            "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
        }
        command = [server, "run", "--batch", "-", "--workers", "1", "--progress", "none"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def seconds(self, line: dict) -> tuple[float, bool]:
        """Returns the duration of a line, and whether a warm interpreter ran it."""
        began = time.perf_counter()
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        ended = time.perf_counter()
        if not answer or not json.loads(answer)["passed"]:
            raise NotMeasured(f"a wrong answer: {answer}")
        return ended - began, json.loads(answer)["warm"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(options: argparse.Namespace, scratch: Path) -> int:
    batch = Batch(options.server, scratch)
    try:
        for _ in range(WARM_UP_MAX):
            if all(batch.seconds(line)[1] for line in (BY_STDIN, BY_CALL)):
                break
        else:
            raise NotMeasured("the interpreters never got warm")
        times: list[tuple[float, float]] = []
        for number in range(options.rounds):
            order = (BY_STDIN, BY_CALL) if number % 2 == 0 else (BY_CALL, BY_STDIN)
            taken = {id(line): batch.seconds(line)[0] for line in order}
            times.append((taken[id(BY_STDIN)], taken[id(BY_CALL)]))
    finally:
        batch.close()
    by_stdin, by_call = (statistics.median(each) for each in zip(*times))
    ratio = by_stdin / by_call
    print(f"{len(times)} pairs, medians: by standard input {1 / by_stdin:.0f} a second, by call {1 / by_call:.0f}")
    print(f"rate of tests by call: {ratio:.2f} of that of tests by standard input: {'met' if ratio >= TARGET else 'MISSED'}")
    return 0


if __name__ == "__main__":
    sys.exit(in_scratch(measure, small_bench_options(__doc__.splitlines()[0], rounds=PAIRS), prefix="qwed-mcp-bench-"))
