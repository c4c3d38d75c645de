#!/usr/bin/env python3
"""Counts how many different results equal scripts have, and measures the cost of deterministic runs, as two tables.

    benches/determinism.py [--server PATH] [--python PATH] [--runs N] [--rounds N]

- Runs each script N times with `qwed-mcp run`, without and with `--deterministic`.
- Compares calls of a deterministic server with calls of another server, with and without warm interpreters, in --rounds
  interleaved pairs.

Linux only. Scripts whose package is not installed are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from contestants import REPOSITORY, Bench, Contestant, NotMeasured, Peer, in_scratch
from verdicts import pairs, report
from warm import wait_until_warm

SCRIPTS = {
    "set order, `hash()`": "print({'a', 'b', 'c'}, hash('x'))",
    "NumPy: product, eigenvalues": "import numpy as n\na = n.sin(n.arange(10000.)).reshape(100, 100)\n"
    "print((a @ a).sum(), n.linalg.eigvals(a).sum())",
    "traceback": "def f(): return 1 / 0\nf()",
    "`random`": "import random\nprint(random.random())",
    "`random.Random()`": "import random\nprint(random.Random().random(), random.Random().random())",
    "`numpy.random`": "import numpy\nprint(numpy.random.random())",
    "`numpy.random.default_rng()`": "import numpy\nprint(numpy.random.default_rng().random())",
    "address in a text": "print(object())",
    "order of a set of objects": "class A:\n    def __init__(self, n): self.n = n\nprint([a.n for a in {A(n) for n in range(20)}])",
    "PID": "import os\nprint(os.getpid())",
    "date": "import datetime\nprint(datetime.date.today())",
    "time": "import time\nprint(time.time())",
    "`uuid.uuid4()`": "import uuid\nprint(uuid.uuid4())",
    "`secrets`, `os.urandom`": "import os, secrets\nprint(secrets.token_hex(), os.urandom(8))",
    "order of threads": "import threading\nout = []\n"
    "def f(n):\n    for k in range(9):\n        sum(range(100_000))\n        out.append(n)\n"
    "all = [threading.Thread(target=f, args=(n,)) for n in range(20)]\n"
    "[t.start() for t in all]; [t.join() for t in all]\nprint(out)",
}

# Scripts for the second table, and their output.
TIMED = {
    "print(1)": ("print(1)", "1"),
    "SymPy": ("import sympy\nx = sympy.Symbol('x')\nprint(sympy.diff(sympy.sin(x) * x, x))", "x*cos(x) + sin(x)"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=Path, default=REPOSITORY / "target" / "release" / "qwed-mcp")
    parser.add_argument("--python", type=Path, default=REPOSITORY / "target" / "python" / "bin" / "python")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    options.server = options.server.absolute()
    return in_scratch(measure, options, "qwed-mcp-determinism-")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    environment = {
        **os.environ,
        "QWED_MCP_TRUSTED_CODE_EXECUTION": "true",
        "QWED_MCP_PYTHON": str(options.python.absolute()),
        "QWED_MCP_DATA_DIR": str(scratch / "data"),
    }
    print(f"different results in {options.runs} runs\n\n| | without | `--deterministic` |\n|---|---:|---:|")
    for name, code in SCRIPTS.items():
        script = scratch / "script.py"
        script.write_text(code)
        counts = []
        for flags in ([], ["--deterministic"]):
            results = {run([options.server, "run", *flags, script], environment) for _ in range(options.runs)}
            counts.append(len(results))
        print(f"| {name} | {counts[0]} | {counts[1]} |", flush=True)
    cost(options, scratch)
    return 0


def cost(options: argparse.Namespace, scratch: Path) -> None:
    """Measures the cost of deterministic runs, and prints the table."""
    bench = Bench.prepare(options.server, Peer(options.python.absolute(), options.server, {}), scratch)
    on, cold = {"QWED_MCP_DETERMINISTIC": "on"}, {"QWED_MCP_WARM": "off"}
    kinds = {"warm": ({}, on), "cold": (cold, {**cold, **on})}
    print(f"\nmedians of {options.rounds} pairs in ms, with 95 % intervals\n")
    print("| first | second | first | second | ratio | difference |\n|---|---|---:|---:|---:|---:|")
    for kind, both in kinds.items():
        with contextlib.ExitStack() as running:
            usual, deterministic = (
                running.enter_context(
                    Contestant(kind, options.server).start(
                        replace(bench, environment={**bench.environment, **variables})
                    )
                )
                for variables in both
            )
            if kind == "warm":
                wait_until_warm(usual)
                wait_until_warm(deterministic)
            for name, (script, printed) in TIMED.items():
                samples = pairs(
                    lambda script=script, printed=printed, server=deterministic: server.run_script(script, printed),
                    lambda script=script, printed=printed, server=usual: server.run_script(script, printed),
                    options.rounds,
                )
                report(f"{name}, deterministic", kind, samples)


def run(argv: list, environment: dict[str, str]) -> tuple[str, str, int]:
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)
    # With the exit codes 124 to 127, the script did not run to its end.
    if done.returncode in range(124, 128):
        raise NotMeasured(f"{argv} ended with {done.returncode}: {done.stderr[-500:]}")
    # The duration in a line on standard error differs, so this line is removed.
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note:")]
    return done.stdout, "\n".join(lines), done.returncode


if __name__ == "__main__":
    sys.exit(main())
