#!/usr/bin/env python3
"""Measures the cost of the judge's levels with `run_pytest` on 300 small tests in 10 files.

    benches/judge.py [--server PATH] [--python PATH] [--peer PATH] [--rounds N | --smoke]

Each round runs the suite once at each level, in alternating order. The base is the level in-process of `--peer`,
for example an earlier release, or else of the same server. Every reply is checked. A missed target does not fail
the bench. A wrong reply is an error with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from contestants import REPOSITORY, Bench, Contestant, NotMeasured, Peer, Server, in_scratch, small_bench_options
from governance import governance
from verdicts import interval

FILES = 10
TESTS = 30
# The maximum duration at a level, as a multiple of the base.
TARGETS = {"in-process": 1.3, "pinned": 2.0, "isolated": None}


def main() -> int:
    interpreter = REPOSITORY / "target" / "python" / "bin" / "python"
    options = small_bench_options(__doc__.splitlines()[0], rounds=100, interpreter=interpreter, has_peer=True)
    return in_scratch(measure, options, "qwed-mcp-bench-")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    bench = Bench.prepare(options.server, Peer(options.python, options.server, {}), scratch)
    with contextlib.ExitStack() as running:

        def start(name: str, binary: Path, level: str) -> Server:
            folder = scratch / name
            folder.mkdir()
            environment = {**governance(binary, folder), "QWED_MCP_PYTHON": str(options.python.absolute())}
            write_suite(folder, level)
            if level != "in-process":
                record(binary, environment)
            governed = replace(bench, environment={**bench.environment, **environment})
            return running.enter_context(Contestant(name, binary).start(governed))

        servers = {level: start(level, options.server, level) for level in TARGETS}
        base = start("base", options.peer, "in-process") if options.peer else servers["in-process"]
        samples = {level: [] for level in TARGETS}
        for number in range(options.rounds + 1):
            order = list(TARGETS.items())[:: 1 if number % 2 else -1]
            base_ms = run_suite(base)
            for level, _ in order:
                ratio = run_suite(servers[level]) / base_ms
                if number:
                    samples[level].append(ratio)
    for level, target in TARGETS.items():
        ratio, low, high = interval(samples[level])
        judged = "" if target is None else f"; target {target:g}: {'met' if low <= target else 'MISSED'}"
        print(f"{level:11}{ratio:6.2f} times the base ({low:.2f} to {high:.2f}, {options.rounds} rounds){judged}")
    return 0


def write_suite(folder: Path, level: str) -> None:
    """Writes the code under test to the workspace. For a pinned level, writes the tests to a separate folder."""
    workspace = folder / "workspace"
    (workspace / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    tests = workspace
    if level != "in-process":
        tests = folder / "tests"
        tests.mkdir()
        judge = f'[judge]\ntests = "{tests}"\nlist = "{folder / "list.json"}"\nrequire = "{level}"\n'
        with (folder / "policy.toml").open("a") as policy:
            policy.write(judge)
    for file in range(FILES):
        lines = ["from calc import add\n"]
        lines += [f"def test_{test}():\n    assert add({file}, {test}) == {file + test}\n" for test in range(TESTS)]
        (tests / f"test_{file}.py").write_text("\n".join(lines))


def record(binary: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [binary, "judge", "record"], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotMeasured(f"no list: {done.stderr}")


def run_suite(server: Server) -> float:
    """Runs all tests. Returns the duration of the call in ms."""
    arguments = {"name": "run_pytest", "arguments": {"test_path": "."}}
    elapsed_ms, result = server.timed_request("tools/call", arguments)
    status = result.get("_meta", {}).get("qwed.ai/run", {}).get("status")
    if status != "passed":
        raise server.wrong("run_pytest", json.dumps(result))
    return elapsed_ms


if __name__ == "__main__":
    sys.exit(main())
