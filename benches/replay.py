#!/usr/bin/env python3
"""Counts how many scripts give the same result again: verifies and replays a receipt of each, and prints a table.

    benches/replay.py FOLDER... [--server PATH] [--python PATH] [--scripts N] [--times N] [--list]

Takes N scripts (`*.py`) from the folders and their subfolders, evenly in the order of their names. One server runs them
all in warm interpreters; `receipt verify` and `replay` take the receipts one by one, in new interpreters. The table
counts the scripts by verdict and by the reasons for which their receipts allow a difference; --list prints each script
that is not identical. An invalid receipt is an error with exit code 1. So is a script that differs although its receipt
names no reason. Linux only, standard library only.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from contestants import REPOSITORY, Bench, Contestant, NotMeasured, Peer, in_scratch

# This verdict means that the script was refused or did not run to its end, so it was not replayed.
NOT_RUN = "not run"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--server", type=Path, default=REPOSITORY / "target" / "release" / "qwed-mcp")
    parser.add_argument("--python", type=Path, default=REPOSITORY / "target" / "python" / "bin" / "python")
    parser.add_argument("--scripts", type=int, default=300)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="name the scripts that are not identical")
    options = parser.parse_args()
    options.server = options.server.absolute()
    return in_scratch(measure, options, "qwed-mcp-replay-")


def measure(options: argparse.Namespace, scratch: Path) -> int:
    scripts = [script for folder in options.folders for script in sorted(folder.rglob("*.py"))]
    if not scripts:
        raise NotMeasured("the folders have no scripts")
    count = min(options.scripts, len(scripts))
    scripts = [scripts[index * len(scripts) // count] for index in range(count)]
    bench = Bench.prepare(options.server, Peer(options.python, options.server, {}), scratch)
    environment = {
        **bench.environment,
        "QWED_MCP_DATA_DIR": str(scratch / "data"),
        "QWED_MCP_RECEIPTS": str(scratch / "receipts"),
    }
    command(options.server, ["receipt", "keygen"], environment)
    table: collections.Counter[tuple[str, str]] = collections.Counter()
    unexplained = 0
    with Contestant("receipts", options.server).start(replace(bench, environment=environment)) as server:
        for script in scripts:
            code = script.read_bytes()
            verdict, reasons, differences = one(options, environment, server, script, code)
            table[verdict, reasons] += 1
            unexplained += verdict in ("differs", "not deterministic") and not reasons
            if options.list and verdict != "identical":
                print(f"{script}: {verdict} ({reasons or 'no reason named'})")
                for difference in differences:
                    print(f"    {difference}")
    report(table, count, options.times)
    if unexplained:
        print(f"\n{unexplained} differ although their receipts name no reason")
    return 1 if unexplained else 0


def one(options, environment, server, script: Path, code: bytes) -> tuple[str, str, list[str]]:
    """Returns the verdict on one script, the reasons in its receipt, and the differences."""
    arguments = {"code": code.decode("utf-8", "replace")}
    _, result = server.timed_request("tools/call", {"name": "execute_python_code", "arguments": arguments})
    receipt_meta = result["_meta"].get("qwed.ai/receipt")
    if receipt_meta is None:
        raise NotMeasured(f"{script}: no receipt: {result}")
    receipt = str(Path(environment["QWED_MCP_RECEIPTS"]) / receipt_meta["path"])
    command(options.server, ["receipt", "verify", receipt, "--subject", f"script.py={script}"], environment)
    argv = ["replay", receipt, "--script", str(script), "--times", str(options.times), "--format", "json"]
    replayed = json.loads(command(options.server, argv, environment, codes=(0, 1, 3, 4)))
    if replayed["environment"]:
        raise NotMeasured(f"{script}: the environment differs: {replayed['environment']}")
    differences = replayed["result"] or [replayed["reason"] or ""]
    return replayed["verdict"], ", ".join(replayed["may_differ_by"]), differences


def command(server: Path, arguments: list[str], environment: dict[str, str], codes: tuple[int, ...] = (0,)) -> str:
    environment = {**os.environ, **environment}
    done = subprocess.run([server, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise NotMeasured(f"{arguments} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.stdout


def report(table: collections.Counter[tuple[str, str]], count: int, times: int) -> None:
    print(f"{count} scripts, each replayed {times} times\n\n| verdict | may differ by | scripts |\n|---|---|---:|")
    for (verdict, reasons), scripts in sorted(table.items(), key=lambda row: (row[0][0], -row[1])):
        print(f"| {verdict} | {reasons or '-'} | {scripts} |")
    run = sum(scripts for (verdict, _), scripts in table.items() if verdict != NOT_RUN)
    identical = sum(scripts for (verdict, _), scripts in table.items() if verdict == "identical")
    print(f"\n{identical} of the {run} that ran to their end are identical")


if __name__ == "__main__":
    sys.exit(main())
