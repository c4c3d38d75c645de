#!/usr/bin/env python3
"""Measures the cost of inputs in interleaved pairs of calls, in one run.

    benches/inputs.py [--server PATH] [--python PATH] [--rounds N | --smoke]

Each row compares a call whose script gets 3 MB of inputs with a call without inputs, on one server with warm
interpreters. The difference is the cost of the message, the decision, the digests, the files and the mapping
`inputs`. Each round runs both calls once, in alternating order. A row has the median of both, and the medians of
their ratio and difference with 95 % confidence intervals. The target is a difference of at most 25 ms.

Every reply is checked. A wrong answer is an error with exit code 1.
"""

from __future__ import annotations

import argparse
import base64
import sys
import time
from pathlib import Path
from typing import Any

from contestants import REPOSITORY, SETTLE_S, Bench, Contestant, Peer, Server, in_scratch, small_bench_options
from verdicts import PRINT, pairs, report
from warm import wait_until_warm

BYTES = 3_000_000
TEXT = "1,two,3.5,2026-01-01\n" * (BYTES // 21)
RAW = bytes(range(256)) * (BYTES // 256)
NAMED = {
    "a text": (f"print(len(open('a.csv').read()) == {len(TEXT)})", {"a.csv": TEXT}),
    "base64": (f"print(len(inputs['a']) == {len(RAW)})", {"a": {"base64": base64.b64encode(RAW).decode()}}),
}


def main() -> int:
    interpreter = REPOSITORY / "target" / "python" / "bin" / "python"
    options = small_bench_options(__doc__.splitlines()[0], rounds=100, interpreter=interpreter)
    return in_scratch(measure, options, "qwed-mcp-bench-")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    bench = Bench.prepare(options.server, Peer(options.python, options.server, {}), scratch)
    with Contestant("ours", options.server).start(bench) as server:
        wait_until_warm(server)
        print(f"medians of {options.rounds} pairs in ms, with 95 % intervals\n")
        print("| first | second | first | second | ratio | difference |\n|---|---|---:|---:|---:|---:|")
        for name, (script, inputs) in NAMED.items():
            arguments = {"code": script, "inputs": inputs}
            samples = pairs(
                lambda: call(server, arguments, "True"), lambda: call(server, {"code": PRINT}, "1"), options.rounds
            )
            report(f"3 MB as {name}", "print(1)", samples)
    return 0


def call(server: Server, arguments: dict[str, Any], printed: str) -> float:
    """Runs a script that must print a text. Returns the duration in ms."""
    time.sleep(SETTLE_S)
    elapsed_ms, text = server.call_tool("execute_python_code", arguments)
    if not text.startswith(f"STDOUT:\n{printed}\n"):
        raise server.wrong("a script", text)
    return elapsed_ms


if __name__ == "__main__":
    sys.exit(main())
