#!/usr/bin/env python3
"""Compares calls with and without receipts, and a durable write to the disk, measured in one run.

    benches/receipts.py [--server PATH] [--python PATH] [--rounds N | --smoke]

Runs three servers at once: without receipts, with receipts, and with `QWED_MCP_RECEIPTS_SYNC=on`. In each round all of
them run `print(1)`, and one file of a receipt's size is written and synced in the folder of the receipts, to measure
the cost of one durable write on that disk. Every receipt is verified at the end. A missed target does not fail the
bench. An invalid receipt is an error with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from contestants import REPOSITORY, Bench, Contestant, NotMeasured, Peer, in_scratch, small_bench_options

SCRIPT, PRINTED = "print(1)", "1"
RATIO_MAX = 1.5
KINDS = {"without": None, "receipts": "off", "receipts, synced": "on"}


def main() -> int:
    interpreter = REPOSITORY / "target" / "python" / "bin" / "python"
    options = small_bench_options(__doc__.splitlines()[0], rounds=100, interpreter=interpreter)
    # The scratch folder is next to the checkout, because the temporary folder may be in memory, where a sync costs
    # nothing.
    return in_scratch(measure, options, "receipts-", REPOSITORY / "target")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    bench = Bench.prepare(options.server, Peer(options.python, options.server, {}), scratch)
    data = {"QWED_MCP_DATA_DIR": str(scratch / "data")}
    command([options.server, "receipt", "keygen"], data)
    samples: dict[str, list[float]] = {name: [] for name in [*KINDS, "one fsync"]}
    with contextlib.ExitStack() as running:
        servers = {}
        for number, (name, sync) in enumerate(KINDS.items()):
            environment = {**bench.environment, **data}
            if sync:
                environment["QWED_MCP_RECEIPTS"] = str(scratch / f"receipts-{number}")
                environment["QWED_MCP_RECEIPTS_SYNC"] = sync
            of = replace(bench, environment=environment)
            servers[name] = running.enter_context(Contestant(name, options.server).start(of))
        size = 0
        for round_number in range(options.rounds + 1):
            measured = {name: server.run_script(SCRIPT, PRINTED) for name, server in servers.items()}
            if not size:
                size = next((scratch / "receipts-1").rglob("*.json")).stat().st_size
            measured["one fsync"] = fsync_ms(scratch / f"file-{round_number}", size)
            # The first round is not counted, because it includes the start of the interpreters.
            if round_number:
                for name, value in measured.items():
                    samples[name].append(value)
    receipts = sorted(map(str, scratch.glob("receipts-*/*/*.json")))
    if len(receipts) != 2 * (options.rounds + 1):
        raise NotMeasured(f"{len(receipts)} receipts of {2 * (options.rounds + 1)} calls")
    command([options.server, "receipt", "verify", *receipts], data)
    report(samples, size)
    return 0


def fsync_ms(file: Path, size: int) -> float:
    begun = time.perf_counter()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(descriptor, b"x" * size)
    os.fsync(descriptor)
    os.close(descriptor)
    return (time.perf_counter() - begun) * 1000


def command(argv: list[str | Path], environment: dict[str, str]) -> None:
    done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMeasured(f"{argv[1:3]} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")


def report(samples: dict[str, list[float]], size: int) -> None:
    medians = {name: statistics.median(values) for name, values in samples.items()}
    print(f"`{SCRIPT}`, medians of {len(samples['without'])} rounds; a receipt has {size} bytes\n")
    print("| | ms | ratio |\n|---|---:|---:|")
    for name, median in medians.items():
        ratio = "" if name == "one fsync" else f"{median / medians['without']:.2f}"
        print(f"| {name} | {median:.2f} | {ratio} |")
    ratio = medians["receipts"] / medians["without"]
    state = "met" if ratio <= RATIO_MAX else "MISSED"
    print(f"\nreceipts cost at most {RATIO_MAX} times a call without: {state}")


if __name__ == "__main__":
    sys.exit(main())
