#!/usr/bin/env python3
"""Compares a script in each tier of the sandbox with the same script in a bare interpreter, measured in one run.

    benches/sandbox.py [--server PATH] [--python PATH] [--rounds N | --smoke]

Runs one server for each tier, all at once. In each round every server runs `print(1)` once, and so does a bare `python
-c`, so that a busy moment of the machine affects all of them. "over bare" is the difference of the medians: the whole
call until its reply, with the server, the supervisor and the cleanup.

A server that may not create namespaces runs scripts at tier 2. For this tier, the bench starts a server in a changed
root (`chroot`) as an ordinary user, because the kernel refuses user namespaces there. Only root can change the root.
For other users, the row of tier 2 is missing, and the exit code is 1. A missed target does not fail the bench. A server
that runs scripts at the wrong tier is an error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from contestants import Bench, Contestant, NotMeasured, Peer, small_bench_options

SCRIPT, PRINTED = "print(1)", "1"
USER = 65534
# The rows: a title, the value of QWED_MCP_SANDBOX, the required tier, and the maximum time over bare Python in ms.
TIERS = [
    ("no sandbox", "off", "off", None),
    ("tier 2", "required", "T2", 3.0),
    ("tier 3", "strict", "T3", 9.0),
]


def main() -> int:
    options = small_bench_options(__doc__.splitlines()[0], rounds=100, interpreter=Path("/usr/bin/python3"))
    with tempfile.TemporaryDirectory(prefix="qwed-mcp-bench-") as folder:
        scratch = Path(folder)
        scratch.chmod(0o777)
        try:
            return measure(options, scratch)
        except NotMeasured as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 1


def measure(options: argparse.Namespace, scratch: Path) -> int:
    # Copies the server, because another user may be unable to read the checkout.
    server = scratch / "server"
    shutil.copy(options.server, server)
    server.chmod(0o755)
    peer = Peer(options.python, server, {})
    bench = Bench.prepare(server, peer, scratch)
    samples: dict[str, list[float]] = {"bare Python": []}
    with contextlib.ExitStack() as running:
        servers = {}
        for name, mode, tier, _ in TIERS:
            command = changed_root(server, scratch) if tier == "T2" else server
            own = replace(bench, environment={**bench.environment, "QWED_MCP_SANDBOX": mode})
            servers[name] = running.enter_context(Contestant(name, command).start(own))
            expect_tier(servers[name], tier)
            samples[name] = []
        for _ in range(options.rounds):
            elapsed, printed = bench.run_bare(SCRIPT)
            if printed.strip() != PRINTED:
                raise NotMeasured(f"bare Python printed {printed!r}")
            samples["bare Python"].append(elapsed)
            for name, each in servers.items():
                samples[name].append(each.run_script(SCRIPT, PRINTED))
    report(samples, options.rounds)
    return 0


def expect_tier(server, tier: str) -> None:
    arguments = {"name": "execute_python_code", "arguments": {"code": SCRIPT}}
    result = server.request("tools/call", arguments)
    had = result.get("_meta", {}).get("qwed.ai/execution", {}).get("sandbox")
    if had != tier:
        raise NotMeasured(f"a server runs scripts at {had} instead of {tier}: {result}")


def changed_root(server: Path, scratch: Path) -> Path:
    """Writes a program that starts the server as an ordinary user, in a changed root with the same files."""
    if os.geteuid() != 0:
        raise NotMeasured("tier 2 needs chroot here, which needs root")
    root = scratch / "root"
    root.mkdir()
    command = scratch / "server-in-changed-root"
    command.write_text(
        "#!/bin/sh\n"
        f"exec unshare --mount sh -c 'mount --rbind / {root} && exec chroot --userspec={USER}:{USER} {root} {server}'\n"
    )
    command.chmod(0o755)
    return command


def report(samples: dict[str, list[float]], rounds: int) -> None:
    bare = statistics.median(samples["bare Python"])
    targets = {name: target for name, _, _, target in TIERS}
    print(f"{SCRIPT}, {rounds} rounds, milliseconds")
    print(f"{'':14}{'median':>8}{'p95':>8}{'over bare':>11}{'ratio':>7}  target")
    for name, values in samples.items():
        median = statistics.median(values)
        p95 = sorted(values)[int(0.95 * (len(values) - 1))]
        target = targets.get(name)
        judged = ""
        if target is not None:
            judged = f"{target:g} over bare: {'met' if median - bare <= target else 'MISSED'}"
        print(f"{name:14}{median:8.2f}{p95:8.2f}{median - bare:11.2f}{median / bare:7.2f}  {judged}")


if __name__ == "__main__":
    sys.exit(main())
